# SPDX-License-Identifier: Apache-2.0
"""A training process without a framework: it marks its phases through the probe as the Python hook would.

fake_job.py [--rank R --world W] [--steps N] [--data S] [--forward S] [--samples B] [--leak BYTES] [--cache BYTES]
            [--answer] [--alloc CONF] [--uuid UUID] [--grow BYTES] [--epochs N] [--fail TEXT] [--kill SIGNAL] [--hang] [--metrics JSON] [--output DIR] [--evaluate S] [--gpu S] [--at K]
            [--tokens N] [--model TEXT] [--options TEXT] [--framework TEXT] [--log FILE --log-line JSON]
"""

import argparse
import ctypes
import os
import signal
import sys
import time

TEXT, HELLO, BEGIN, END, STEP, EPOCH, GPU_TIME, MEMORY, EXIT, COST, DRIVER, HOST, ANSWER = range(13)
OTHER, DATA, FORWARD, BACKWARD, OPTIMIZER, EVALUATION, SAVE, LOG, ROLLOUT, COMMUNICATION = range(10)
TOKENS = 13
FRAMEWORK, OUTPUT_DIR, ERROR, WHERE, SOURCE, METRICS, ALLOCATOR, ANSWER_TEXT = range(8)
MODEL, OPTIONS = 8, 9
ALLOCATED, ALLOCATED_PEAK, RESERVED, RESERVED_PEAK, ACTIVE, INACTIVE_SPLIT, SEGMENTS, RETRIES, OOMS = range(9)


class Probe:
    def __init__(self):
        self.library = ctypes.CDLL(os.environ["ALULA_PROBE"])
        self.library.alula_probe_mark.argtypes = [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_int32, ctypes.c_int64,
                                                  ctypes.c_int64]
        self.library.alula_probe_text.argtypes = [ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t]

    def mark(self, kind, code=0, a=0, b=0, device=-1):
        return self.library.alula_probe_mark(kind, code, device, a, b)

    def text(self, code, text):
        data = text.encode()
        return self.library.alula_probe_text(code, data, len(data))

    def phase(self, code, step, seconds):
        self.mark(BEGIN, code, step)
        time.sleep(seconds)
        self.mark(END, code, step)


def arguments():
    p = argparse.ArgumentParser()
    for name, kind, default in (("rank", int, 0), ("world", int, 1), ("steps", int, 20), ("data", float, 0),
                                ("forward", float, 0.002), ("samples", int, 4), ("leak", int, 0), ("cache", int, 0),
                                ("fail", str, ""), ("kill", int, 0), ("metrics", str, ""), ("output", str, ""),
                                ("evaluate", float, 0), ("gpu", float, 0), ("at", int, 0), ("source", str, "fake"),
                                ("memory", int, 0), ("communicate", float, 0), ("tokens", int, 0), ("model", str, ""), ("options", str, ""),
                                ("framework", str, "torch=0.0 fake=1"), ("log", str, ""), ("log-line", str, ""), ("alloc", str, ""), ("uuid", str, ""),
                                ("grow", int, 0), ("epochs", int, 0)):
        p.add_argument("--" + name, type=kind, default=default)
    p.add_argument("--hang", action="store_true")
    p.add_argument("--answer", action="store_true")
    return p.parse_args()


given_back = 0


def answer(p, step):
    """As requests.py of the hook does."""
    global given_back
    bits = p.library.alula_probe_request()
    if bits & 1:
        text = "|===|\n|  CUDA OOMs: 0            |        cudaMalloc retries: 3         |\n| Allocated memory      |   1530 MiB |"
        text += "   1540 MiB |      7 GiB |      6 GiB |\n| \x1b[31mnothing |\n" + "| filler |\n" * 400
        for at in range(0, len(text), 1900):
            p.text(ANSWER_TEXT, text[at:at + 1900])
        p.mark(ANSWER, 1, 0, 1000000, device=0)
        p.mark(ANSWER, 1, 0, 0, device=-2)
    if bits & 2:
        freed = (1 << 28) - (1 << 20)
        given_back += freed
        p.mark(ANSWER, 2, freed, 15000000, device=0)
        p.mark(ANSWER, 2, 0, 0, device=-2)


def memory(p, a, step):
    allocated = (1 << 30) + a.leak * step
    for code, value in ((ALLOCATED, allocated), (ALLOCATED_PEAK, allocated + (1 << 20)),
                        (RESERVED, allocated + (1 << 28) + a.cache * step - given_back), (INACTIVE_SPLIT, 0), (RETRIES, 0)):
        p.mark(MEMORY, code, value, step, device=0)


def end(p, a, step):
    if a.fail:
        p.text(ERROR, a.fail)
        p.text(WHERE, "train.py:12 main")
        p.mark(EXIT, 1, 1)
        sys.exit(1)
    if a.kill:
        p.mark(BEGIN, BACKWARD, step)
        os.kill(os.getpid(), a.kill)
        time.sleep(60)
    if a.hang:
        p.mark(BEGIN, COMMUNICATION, step)
        print("hanging", flush=True)
        time.sleep(600)


kept = []


def main():
    a = arguments()
    p = Probe()
    p.mark(HELLO, 1, a.rank, a.world)
    p.text(FRAMEWORK, a.framework + (" device0=" + a.uuid if a.uuid else ""))
    if a.alloc:
        p.text(ALLOCATOR, a.alloc)
    p.text(SOURCE, a.source)
    if a.output:
        p.text(OUTPUT_DIR, a.output)
    if a.model:
        p.text(MODEL, a.model)
    if a.options:
        p.text(OPTIONS, a.options)
    for step in range(1, a.steps + 1):
        if a.at == step:
            end(p, a, step)
        p.phase(DATA, step, a.data)
        p.phase(FORWARD, step, a.forward)
        p.phase(BACKWARD, step, a.forward)
        if a.communicate:
            p.phase(COMMUNICATION, step, a.communicate)
        p.phase(OPTIMIZER, step, 0)
        if a.tokens:
            p.mark(TOKENS, 0, a.tokens)
        if a.gpu:
            p.mark(GPU_TIME, FORWARD, step, int(a.gpu * 1e9))
        if a.leak or a.cache or a.memory:
            memory(p, a, step)
        if a.epochs and (step - 1) % (a.steps // a.epochs) == 0:
            p.mark(EPOCH, 0, (step - 1) // (a.steps // a.epochs))
            kept.append(b"x" * (a.grow * (step > 1)))
        p.mark(STEP, 0, step, a.samples)
        if a.answer:
            answer(p, step)
    if a.log:
        os.makedirs(os.path.dirname(a.log), exist_ok=True)
        with open(a.log, "w", encoding="utf-8") as log:
            log.write(a.log_line)
    if a.evaluate:
        p.phase(EVALUATION, a.steps, a.evaluate)
    if a.metrics:
        p.text(METRICS, a.metrics)
    p.mark(EXIT, 0, 0)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main()
