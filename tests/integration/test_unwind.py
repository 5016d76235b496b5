# SPDX-License-Identifier: Apache-2.0
"""Native frames of programs whose chains of calls are known: how they were compiled, what was stripped from them, what a
waiting thread leaves to go by, and what is not there to be read."""

import lzma
import os
import platform
import re
import shutil
import subprocess
import time

import pytest

CHAIN = ["four", "three", "two", "one", "main"]
FRAME = re.compile(r"^ +\d+ +[0-9a-f]+ (?P<name>.*?)(?P<guessed> \?)?(?P<interpreter> \[interpreter\])? \((?P<object>[^()]*)\)"
                   r"(?: (?P<file>\S+):(?P<line>\d+))?$")
x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the program writes x86-64 code")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("unwind")


@pytest.fixture(scope="module")
def compiled(root, folder):
    """compiled("-O2") is a program made of chain.c."""
    made = {}

    def compile_it(*flags):
        if flags not in made:
            made[flags] = folder / f"chain{len(made)}"
            subprocess.run(["gcc", "-D_GNU_SOURCE", *flags, "-o", made[flags], root / "tests/unit/unwind/chain.c", "-ldl"], check=True)
        return made[flags]

    return compile_it


class Stood:
    """A program that has come to where its chain is."""

    def __init__(self, build, *command):
        self.tool = build / "tests/unit/unwind/unwind-tool"
        self.child = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True)
        assert self.child.stdout.readline() == "ready\n"
        state = state_of(self.child.pid)
        for _ in range(500):  # it prints before it waits
            if {"spin", "calls", "leaf"} & set(command) or state() == "S":
                break
            time.sleep(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()
        self.child.stdout.close()

    def look(self, *options):
        """(status, frames) of its one thread."""
        got = subprocess.run([self.tool, str(self.child.pid), *options], capture_output=True, text=True, check=False)
        assert got.returncode == 0, got.stderr
        return read(got.stdout)


def state_of(pid):
    def state():
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    return state


def read(text):
    lines = text.splitlines()
    head = re.match(r"thread \d+: (\d+) frames, (\w+)$", lines[0])
    frames = [FRAME.match(line).groupdict() for line in lines[1:] if line.startswith("  ")]
    assert len(frames) == int(head[1])
    return head[2], frames


def names(frames):
    return [frame["name"] for frame in frames]


def has_chain(frames, inner):
    found = names(frames)
    at = found.index(inner[0])
    assert found[at:at + len(inner) + len(CHAIN)] == [*inner, *CHAIN], found
    assert found[-1] == "_start"
    return frames[at:]


FLAGS = {"optimized": ["-O2"], "plain": ["-O0"], "frame-pointers": ["-O2", "-fno-omit-frame-pointer"], "static": ["-O2", "-static"],
         "position-dependent": ["-O2", "-no-pie"], "small": ["-Os"]}
ENDS = {"pause": ["stand"], "signal": ["stand", "handler", "[signal]"], "altstack": ["stand", "handler", "[signal]"],
        "sort": ["stand", "compare"], "deep 30": ["stand", *["deep"] * 30]}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("flags", FLAGS)
def test_chain_is_found(build, compiled, flags, end):
    with Stood(build, compiled(*FLAGS[flags]), *end.split()) as program:
        for options in ([], ["--waiting"]):
            status, frames = program.look(*options)
            assert status == "whole"
            found = names(frames)
            inner = ENDS[end]
            at = found.index("stand")
            assert found[at:at + len(inner)] == inner
            outer = found.index("four", at)
            assert found[outer:outer + len(CHAIN)] == CHAIN
            if not options:
                assert not [f for f in frames if f["guessed"]]


def arrived(program, function):
    """A look at a program that has printed, and may not be in its function yet."""
    for _ in range(100):
        status, frames = program.look()
        if names(frames)[0] == function:
            break
    return status, frames


def test_thread_that_runs(build, compiled):
    with Stood(build, compiled("-O2"), "spin") as program:
        status, frames = arrived(program, "spin")
        assert status == "whole"
        has_chain(frames, ["spin"])


@pytest.mark.parametrize("flags", [["-O2"], ["-O0"], ["-O2", "-fno-omit-frame-pointer"], ["-O2", "-Wl,-z,lazy", "-fcf-protection=full"],
                                   ["-O2", "-static"]])
def test_each_instruction(build, compiled, flags):
    """Prologues, epilogues, linkage stubs and what the C library does within: nothing is guessed, nothing is missing."""
    with Stood(build, compiled(*flags), "calls") as program:
        got = subprocess.run([program.tool, str(program.child.pid), "--steps", "3000"], capture_output=True, text=True, check=True)
        stacks = [line.split(" ", 2)[1:] for line in got.stdout.splitlines() if line.startswith("step ")]
        assert len(stacks) == 3000
        for status, text in stacks:
            found = text.split(";")
            assert status == "whole", text
            assert found[-1] == "_start", text
            assert "?" not in text or "-static" in flags, text  # a static program's linkage stubs have no tables
            at = found.index("calls")
            assert found[at + 1:at + 1 + len(CHAIN)] == CHAIN, text
        inner = {text.split(";")[0] for _, text in stacks}
        assert {"calls", "middle"} <= inner
        if "-static" not in flags and "-O0" not in flags:
            assert {"snprintf@plt", "getppid@plt"} <= inner, inner


def test_exported_names_alone(build, compiled, folder):
    """Stripped: what has no name is told by where its function begins, the same for each of its instructions."""
    program = folder / "stripped"
    subprocess.run(["strip", "-o", program, compiled("-O2")], check=True)
    with Stood(build, program, "deep", "3") as running:
        status, frames = running.look()
        own = [f["name"] for f in frames if f["object"] == str(program)]
        assert status == "whole"
        assert len(own) == 11 - 1
        assert all(re.fullmatch(r"0x[0-9a-f]+|main|_start", name) for name in own)
        assert own[1] == own[2] == own[3]
        symbols = subprocess.run(["nm", compiled("-O2")], capture_output=True, text=True, check=True).stdout
        assert int(own[4], 16) == int(re.search(r"^([0-9a-f]+) t four$", symbols, re.M)[1], 16)


def test_packed_table_of_a_stripped_program(build, compiled, folder):
    """As Fedora leaves it: .gnu_debugdata, made as gdb's manual says."""
    full, small, program = compiled("-O2"), folder / "mini", folder / "packed"
    subprocess.run(["objcopy", "-S", "--remove-section", ".gdb_index", "--remove-section", ".comment", "--strip-unneeded",
                    "--keep-symbol=four", "--keep-symbol=three", "--keep-symbol=two", "--keep-symbol=one", "--keep-symbol=stand",
                    "--keep-symbol=main", "--keep-symbol=_start", full, small], check=True)
    (folder / "mini.xz").write_bytes(lzma.compress(small.read_bytes()))
    subprocess.run(["strip", "-o", program, full], check=True)
    subprocess.run(["objcopy", "--add-section", f".gnu_debugdata={folder / 'mini.xz'}", program], check=True)
    with Stood(build, program, "pause") as running:
        status, frames = running.look()
        assert status == "whole"
        has_chain(frames, ["stand"])


@pytest.mark.parametrize("where", ["beside", ".debug"])
def test_separate_debugging_file(build, compiled, folder, where):
    full, program = compiled("-O2", "-g", "-Wl,--build-id"), folder / f"split-{where}"
    debug = folder / (f"split-{where}.debug" if where == "beside" else f".debug/split-{where}.debug")
    debug.parent.mkdir(exist_ok=True)
    subprocess.run(["objcopy", "--only-keep-debug", full, debug], check=True)
    subprocess.run(["strip", "-o", program, full], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", program], check=True)
    with Stood(build, program, "pause") as running:
        status, frames = running.look()
        assert status == "whole"
        own = has_chain(frames, ["stand"])
        assert all(frame["file"].endswith("chain.c") for frame in own[:6])


def test_another_build_s_debugging_file_is_not_believed(build, compiled, folder):
    full, other, program = compiled("-O2", "-g", "-Wl,--build-id"), compiled("-O0", "-g", "-Wl,--build-id"), folder / "mixed"
    subprocess.run(["objcopy", "--only-keep-debug", other, folder / "mixed.debug"], check=True)
    subprocess.run(["strip", "-o", program, full], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={folder / 'mixed.debug'}", program], check=True)
    with Stood(build, program, "pause") as running:
        _, frames = running.look()
        assert "two" not in names(frames)


@pytest.mark.parametrize("flags", [["-g"], ["-g", "-gz"], ["-g", "-gdwarf-4"], ["-g", "-fno-asynchronous-unwind-tables"]])
def test_source_lines(build, root, compiled, flags):
    """The last has .debug_frame alone."""
    lines = (root / "tests/unit/unwind/chain.c").read_text().splitlines()
    with Stood(build, compiled("-O0", *flags), "pause") as program:
        status, frames = program.look()
        own = has_chain(frames, ["stand"])
        assert status == "whole"
        calls = ["pause();", "stand();", "four();", "three();", "two();", "one();"]
        assert [lines[int(frame["line"]) - 1].strip() for frame in own[:6]] == calls


def test_program_that_was_deleted(build, compiled, folder):
    program = folder / "deleted"
    shutil.copy(compiled("-O2"), program)
    with Stood(build, program, "pause") as running:
        program.unlink()
        status, frames = running.look()
        assert status == "whole"
        found = names(frames)
        assert found[-1] == "_start" or found[-1].startswith("0x")
        if os.access(f"/proc/{running.child.pid}/map_files", os.X_OK):
            has_chain(frames, ["stand"])
        shutil.copy(compiled("-O0"), program)  # another one of the same name
        assert names(running.look()[1]) == found


def test_another_root(build, compiled, folder):
    """Files are those that the process sees."""
    if os.geteuid() != 0:
        pytest.skip("changing a root takes root")
    inside = folder / "root"
    inside.mkdir(exist_ok=True)
    shutil.copy(compiled("-O2", "-static"), inside / "chain")
    with Stood(build, "/usr/sbin/chroot", inside, "/chain", "pause") as running:
        status, frames = running.look()
        assert status == "whole"
        assert has_chain(frames, ["stand"])[0]["object"].endswith("/chain")


def test_what_the_copy_lacks_is_said(build, compiled):
    with Stood(build, compiled("-O2"), "deep", "400") as program:
        status, frames = program.look("--copy", "32768")
        assert status == "cut"
        assert 50 < len(frames) < 200
        assert set(names(frames)[2:]) == {"deep"}
        assert program.look("--copy", "0")[0] == "whole"
        status, frames = program.look()  # more than is copied at once, but the thread sleeps
        assert status == "whole"
        has_chain(frames, ["stand", *["deep"] * 400])


def test_deeper_than_the_most(build, compiled):
    with Stood(build, compiled("-O2"), "deep", "3000") as program:
        status, frames = program.look()
        assert status == "cut"
        assert len(frames) == 1024


@x86
@pytest.mark.parametrize("how", ["code", "code-fp"])
@pytest.mark.parametrize("flags", ["optimized", "frame-pointers"])
def test_code_made_at_run_time(build, compiled, flags, how):
    with Stood(build, compiled(*FLAGS[flags]), how) as program:
        try:
            for options in ([], ["--waiting"]):
                status, frames = program.look(*options)
                assert status == "whole"
                has_chain(frames, ["stand", "made; at [run] time", "by_code"])
        finally:
            os.unlink(f"/tmp/perf-{program.child.pid}.map")
        status, frames = program.look()
        found = names(frames)
        assert found[:3] == ["pause", "stand", "[code made at run time]"]
        assert found[found.index("four"):][:len(CHAIN)] == CHAIN


@x86
def test_assembly_without_tables(build, compiled, folder):
    """The table tells where entries begin: what follows one is not its function, neither for its name nor for its caller."""
    with Stood(build, compiled("-O2"), "assembly") as program:
        for options in ([], ["--waiting"]):
            status, frames = program.look(*options)
            assert status == "whole"
            has_chain(frames, ["stand", "assembly", "by_assembly"])
    stripped = folder / "stripped-assembly"
    subprocess.run(["strip", "--strip-all", "--remove-section=.gnu_debugdata", "-o", stripped, compiled("-O2")], check=True)
    symbols = subprocess.run(["nm", compiled("-O2")], capture_output=True, text=True, check=True).stdout
    begin = int(re.search(r"^([0-9a-f]+) T assembly$", symbols, re.M)[1], 16)
    with Stood(build, stripped, "assembly") as program:
        own = names(frame for frame in program.look()[1] if frame["object"] == str(stripped))
    assert begin < int(own[1], 16) < begin + 32, own


def test_many_words_that_mislead(build, compiled):
    """Each is looked up on the way to the caller, and has a rule of its own: more than there was room for."""
    with Stood(build, compiled("-O2"), "stale") as program:
        for options in ([], ["--waiting"]):
            status, frames = program.look(*options)
            assert status == "whole"
            has_chain(frames, ["stand", "varied", "by_varied"])


@x86
def test_leaf_of_assembly(build, compiled):
    """What it was called by is what the stack pointer points at; better words further up are of other times."""
    with Stood(build, compiled("-O2"), "leaf") as program:
        status, frames = arrived(program, "leaf")
        assert status == "whole"
        assert [frame["guessed"] is not None for frame in has_chain(frames, ["leaf", "by_leaf"])[:3]] == [False, True, False]


def test_library_that_comes_later(build, compiled, folder):
    (folder / "later.c").write_text("volatile int sink; void loaded_later(void (*f)(void)) { f(); sink++; }")
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", folder / "later.so", folder / "later.c"], check=True)
    with Stood(build, compiled("-O2"), "load", folder / "later.so") as program:
        status, frames = program.look()
        assert status == "whole"
        assert has_chain(frames, ["stand", "loaded_later", "by_library"])[1]["object"] == str(folder / "later.so")


@x86
def test_exported_assembly_without_a_size(build, compiled, folder):
    """As in musl: what follows it in a stripped library is no part of it as far as anybody knows."""
    (folder / "sizeless.c").write_text("""
void hidden(void (*f)(void)) __attribute__((visibility("hidden")));
__asm__(".text\\n.globl exported\\n.type exported, @function\\nexported: ret\\n"
        ".globl hidden\\n.hidden hidden\\n.type hidden, @function\\nhidden: sub $8, %rsp\\ncall *%rdi\\nadd $8, %rsp\\nret\\n");
volatile int sink; void loaded_later(void (*f)(void)) { hidden(f); sink++; }
""")
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-s", "-o", folder / "sizeless.so", folder / "sizeless.c"], check=True)
    with Stood(build, compiled("-O2"), "load", folder / "sizeless.so") as program:
        status, frames = program.look()
        found = names(frames)
        assert status == "whole" and "by_library" in found
        assert re.fullmatch("0x[0-9a-f]+", found[found.index("stand") + 1]), found


def test_names_of_cplusplus(build, folder):
    if not shutil.which("g++"):
        pytest.skip("no g++ here")
    source = folder / "names.cc"
    source.write_text("""
#include <stdio.h>
#include <unistd.h>
#include <vector>
volatile int sink;
namespace outer { template <class T> struct Box { __attribute__((noipa)) void wait(const std::vector<T> &) {
    puts("ready"); fflush(stdout); pause(); sink = sink + 1; } }; }
namespace { struct Hidden { __attribute__((noipa)) void operator()(int) { outer::Box<long>().wait({1}); sink = sink + 1; } }; }
int main() { Hidden()(1); sink = sink + 1; }
""")
    subprocess.run(["g++", "-O1", "-o", folder / "names", source], check=True)
    with Stood(build, folder / "names") as program:
        found = names(program.look()[1])
        assert "outer::Box<long>::wait(std::vector<long, std::allocator<long> > const&)" in found
        assert "(anonymous namespace)::Hidden::operator()(int)" in found


def test_errors(build):
    tool = build / "tests/unit/unwind/unwind-tool"
    got = subprocess.run([tool, "999999999"], capture_output=True, text=True, check=False)
    assert got.returncode == 1
    assert got.stderr == "there is no process 999999999\n"
    gone = subprocess.Popen(["true"])
    os.waitid(os.P_PID, gone.pid, os.WEXITED | os.WNOWAIT)
    got = subprocess.run([tool, str(gone.pid)], capture_output=True, text=True, check=False)
    assert got.stderr == f"process {gone.pid} has ended\n"
    gone.wait()
