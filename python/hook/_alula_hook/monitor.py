# SPDX-License-Identifier: Apache-2.0
"""Batches that come from any iterator, with Python 3.12 and newer: the code object of the training loop itself is
watched by sys.monitoring, and no other. Two lines of it are told each step, the `for` and the one behind it, and its
calls of next(); the interpreter is told to be silent about all others, so it runs them as if nobody watched. Begun only
when steps end without a batch from a DataLoader."""

import os
import sys

from . import log, loop

FETCH, BODY, AFTER = 1, 2, 3  # LINE_... of src/probe/python.c
LINES_MOST = 32
FRAMES_MOST = 24
LOOPS_MOST = 8  # one after another
COUNTED = {"range", "trange", "count", "repeat", "cycle"}  # a loop over these fetches nothing by itself

UNKNOWN = "batches come from no DataLoader"
tool = None
watched = []  # (code, lines) of the loops, of which the last one is now


def _libraries(frame):
    torch = os.path.dirname(sys.modules["torch"].__file__)
    here = os.path.dirname(__file__)
    name = frame.f_code.co_filename
    return name.startswith((torch, here)) or name.startswith("<") and name not in ("<stdin>", "<string>")


def _line_behind(instructions, index, line):
    """Of the first instruction from there that is on another line."""
    for instruction in instructions[index:]:
        number = getattr(instruction.positions, "lineno", None)
        if number is not None and number != line:
            return number
    return None


def _header_names(instructions, index, line):
    """Names on the line of a `for`, up to its GET_ITER."""
    names = set()
    while index > 0 and getattr(instructions[index - 1].positions, "lineno", None) == line:
        index -= 1
        names.add(instructions[index].argval if isinstance(instructions[index].argval, str) else None)
    return names


def plan(code, at):
    """([(line, kind)], whether it is inside of a loop at all) for the loops around the instruction at that offset."""
    import dis
    instructions = list(dis.get_instructions(code))
    index = {instruction.offset: i for i, instruction in enumerate(instructions)}
    lines, inside = {}, False
    for i, instruction in enumerate(instructions):
        target = instruction.argval
        if instruction.opname.startswith("JUMP_BACKWARD") and target <= at <= instruction.offset:
            inside = True
        if instruction.opname != "FOR_ITER" or not instruction.offset < at < target:
            continue
        inside = True
        line = instruction.positions.lineno
        body = _line_behind(instructions, i + 1, line)
        if body is None or COUNTED & _header_names(instructions, i, line):
            continue
        lines[line] = FETCH
        lines.setdefault(body, BODY)
        after = _line_behind(instructions, index.get(target, len(instructions)), line)
        if after is not None:
            lines.setdefault(after, AFTER)
    return lines, inside


def _find(frame):
    """The innermost frame of the job's own that is in a loop: its code and what to tell of it."""
    for _ in range(FRAMES_MOST):
        if frame is None:
            break
        if not _libraries(frame):
            lines, inside = plan(frame.f_code, frame.f_lasti)
            if inside:
                return frame.f_code, lines
        frame = frame.f_back
    return None, None


def _free_tool(monitoring):
    for number in (4, 3, 1, 0, 2, 5):  # the first two belong to nobody by convention
        if monitoring.get_tool(number) is None:
            monitoring.use_tool_id(number, "alula")
            return number
    return None


def begin(frame):
    """None, or why what the loop waits for cannot be known."""
    global tool
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return UNKNOWN + ", and other iterators are seen with Python 3.12 and newer alone"
    code, lines = _find(frame)
    if code is None or (code, lines) in watched or len(lines) > LINES_MOST or len(watched) == LOOPS_MOST:
        return UNKNOWN + " and no loop that is seen"
    if not lines and "next" not in code.co_names:
        return UNKNOWN + " and no iterator that is seen"
    if tool is None:
        tool = _free_tool(monitoring)
        if tool is None:
            return UNKNOWN + ", and other tools use all that sys.monitoring has"
    events = monitoring.events
    if watched:  # what was to be silent in the same code is asked again
        monitoring.set_local_events(tool, watched[-1][0], 0)
    loop.set_monitor(monitoring.DISABLE, next, code)
    for line, kind in lines.items():
        loop.watch_line(line, kind)
    calls = events.CALL if "next" in code.co_names else 0
    for event, function in ((events.LINE, loop.on_line), (events.PY_RETURN, loop.on_return), (events.CALL, loop.on_call),
                            (events.C_RETURN, loop.on_c_return), (events.C_RAISE, loop.on_c_raise)):
        monitoring.register_callback(tool, event, function)
    monitoring.set_local_events(tool, code, (events.LINE | events.PY_RETURN if lines else 0) | calls)
    watched.append((code, lines))
    return None


def end():
    global tool
    monitoring = getattr(sys, "monitoring", None)
    if tool is None or monitoring is None:
        return
    try:
        for code, _ in watched:
            monitoring.set_local_events(tool, code, 0)
        del watched[:]
        for name in ("LINE", "PY_RETURN", "CALL", "C_RETURN", "C_RAISE"):
            monitoring.register_callback(tool, getattr(monitoring.events, name), None)
        monitoring.free_tool_id(tool)
    except Exception:
        log("cannot give sys.monitoring back")
    tool = None
    loop.set_monitor(None, None, None)
