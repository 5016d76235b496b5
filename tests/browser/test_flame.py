# SPDX-License-Identifier: Apache-2.0
"""The flame graph of a program whose shares are known, as a page and as a picture, used by mouse and by keys."""

import collections
import json
import re
import subprocess
import sys

import pytest

import test_profile
from test_dump import LAUNCHER, line_of, running

TRUTH = {"seventy": 0.7, "thirty": 0.3}


@pytest.fixture(scope="session")
def profiles(alula_bin, tmp_path_factory):
    """{"html": file, "svg": file} of the same program, with an idle thread."""
    folder = tmp_path_factory.mktemp("profiles")
    program = folder / "shares.py"
    program.write_text(test_profile.SHARES)
    out = {"program": program}
    with running(sys.executable, program, 60, patience=0) as process:
        for ending in ("html", "svg"):
            out[ending] = folder / f"out.{ending}"
            subprocess.run([alula_bin, "profile", str(process.pid), "-o", out[ending], "-d", "3s", "--rate", "200", "--idle", "--quiet"], check=True)
    return out


@pytest.fixture(params=["html", "svg"])
def page(request, browser, profiles):
    browser.file = profiles[request.param]
    browser.open(browser.file)
    browser.data = test_profile.page_data(browser.file)
    browser.shares = test_profile.page_shares(browser.data)
    return browser


def percent(text):
    return float(re.search(r"([\d.]+) %", text)[1]) / 100


def search(page, text):
    page.evaluate("document.querySelector('#search').focus()")
    page.evaluate("document.querySelector('#search').select()")
    page.type(text)
    return page.text("#found")


def middle(page):
    x, y, wide, high = page.box(".scroll")
    return x + wide / 2, y


def test_what_was_sampled_is_said(page, profiles):
    facts = page.text("#facts")
    assert str(profiles["program"]) in page.text("h1")
    assert f"process {page.data['about']['pid']}" in facts and "of 2 threads, idle ones too" in facts
    assert f"200 samples/s for {page.data['about']['seconds']:.2f} s" in facts
    assert "moved while read" in facts and "UTC" in facts and "alula " in facts
    assert page.text("#note").startswith("Flame graph: width is the share of samples")


def test_search_tells_the_share_of_matches(page):
    for name, truth in TRUTH.items():
        found = search(page, name)
        assert percent(found) == pytest.approx(page.shares[name], abs=0.001)
        assert percent(found) == pytest.approx(truth / 2, abs=0.15)  # the other half sleeps; turns stretch on a busy machine
    assert percent(search(page, "/^(seventy|thirty)$/")) == pytest.approx(page.shares["seventy"] + page.shares["thirty"], abs=0.001)
    assert percent(search(page, "/spin|seventy/")) == pytest.approx(page.shares["spin"], abs=0.02)  # one within the other counts once
    assert percent(search(page, "SHARES.py")) == pytest.approx(1, abs=0.02)  # by file, whatever the case
    assert search(page, "nothing of the kind") == "no match" and search(page, "/(/") == "no match" and search(page, "") == ""


def test_keys_move_zoom_and_go_back(page):
    page.evaluate("document.querySelector('.scroll').focus()")
    page.key("ArrowDown")
    assert page.text("#details").startswith("all")
    seen = []
    for _ in range(3):
        page.key("ArrowDown")
        seen.append(page.text("#details .who b"))
    page.key("ArrowRight")
    assert page.text("#details .who b") != "" and page.evaluate("document.querySelector('#reset').disabled")
    page.key("Enter")
    assert not page.evaluate("document.querySelector('#reset').disabled")
    page.key("Escape")
    assert page.evaluate("document.querySelector('#reset').disabled")
    assert search(page, "thirty")
    page.key("Enter")  # to the first match
    assert page.text("#details .who b") == "thirty"
    assert percent(page.text("#details")) == pytest.approx(page.shares["thirty"], abs=0.001)
    page.key("ArrowUp")
    assert page.text("#details .who b") == "<module>"


def boxes_of_row(page, row):
    """Names in a row from left to right, by what the pointer finds there."""
    x, y, wide, _ = page.box(".scroll")
    names = []
    for step in range(40):
        page.hover(x + wide * (step + 0.5) / 40, y + 4 + 19 * row + 9)
        names.append(page.evaluate("(e => e ? e.textContent : '')(document.querySelector('#details .who b'))"))
    return collections.Counter(names)


def test_a_click_zooms(page):
    row = 2  # all, <module>, and what it called
    names = boxes_of_row(page, row)
    share = page.shares["seventy"] / (page.shares["seventy"] + page.shares["thirty"])
    assert names["seventy"] / (names["seventy"] + names["thirty"]) == pytest.approx(share, abs=0.1)  # by 40 places
    x, y, wide, _ = page.box(".scroll")
    at = next(i for i in range(40) if hovered(page, x + wide * (i + 0.5) / 40, y + 4 + 19 * row + 9) == "seventy")
    page.click(x + wide * (at + 0.5) / 40, y + 4 + 19 * row + 9)
    assert set(boxes_of_row(page, row)) == {"seventy"}
    assert set(boxes_of_row(page, 1)) == {"<module>"}  # its callers keep standing above it
    click(page, "#reset")
    assert boxes_of_row(page, row) == names


def hovered(page, x, y):
    page.hover(x, y)
    return page.evaluate("(e => e ? e.textContent : '')(document.querySelector('#details .who b'))")


def click(page, selector):
    x, y, wide, high = page.box(selector)
    page.click(x + wide / 2, y + high / 2)


def test_lines_and_where(page, profiles):
    search(page, "seventy")
    page.key("Enter")
    line = line_of(profiles["program"], "spin(0.0091)")
    assert page.text("#details .who span").strip() == f"{profiles['program']}:{line_of(profiles['program'], 'def seventy')}"
    assert f"line {line} (100 %)" in page.text("#details .lines")
    page.choose("#choose-merge", "line")
    search(page, "seventy")
    page.key("Enter")
    assert page.text("#details .who span").strip() == f"{profiles['program']}:{line}"


def test_threads_and_states(page):
    whole = search(page, "spin")
    sleeper = next(t for t in range(2) if page.data["tracks"][t]["thread"] == "sleeper")
    page.choose("#choose-who", f"t{sleeper}")
    assert search(page, "spin") == "no match" and percent(search(page, "sleeps")) == 1
    page.choose("#choose-who", f"t{1 - sleeper}")
    assert percent(search(page, "spin")) > 0.9 > percent(whole)
    page.choose("#choose-who", "all")
    page.choose("#choose-state", "3")  # idle
    assert percent(search(page, "sleeps")) > 0.9
    assert "samples" in page.text("#note")


def test_from_callees(page):
    page.choose("#choose-start", "callees")
    assert percent(search(page, "seventy")) == pytest.approx(page.shares["seventy"], abs=0.001)
    page.key("Enter")
    page.key("ArrowUp")
    assert page.text("#details .who b") == "spin"


def test_flame_has_its_root_below(page):
    icicle = boxes_of_row(page, 0)
    page.choose("#choose-root", "bottom")
    assert set(icicle) == {"all"} and set(boxes_of_row(page, 0)) != {"all"}


def test_time_is_another_view(page):
    page.key("2")
    assert page.text("#note").startswith("Flame chart: left to right is time")
    search(page, "sleeps")
    page.key("Enter")
    said = page.text("#details")
    assert said.startswith("sleeps") and re.search(r"from 0\.?\d* m?s to (2\.\d+|3\.0\d+) s", said)
    search(page, "seventy")
    page.key("Enter")
    first = page.text("#details")
    page.key("n")
    assert first.startswith("seventy") and page.text("#details").startswith("seventy") and page.text("#details") != first
    assert percent(page.text("#found")) == pytest.approx(page.shares["seventy"], abs=0.002)


def test_a_table_of_functions(page):
    page.key("3")
    rows = page.evaluate("[...document.querySelectorAll('tbody tr')].map(r => [...r.children].map(c => c.textContent))")
    table = {row[4].split("/")[0]: row for row in rows}
    assert percent(table["spin"][0]) == pytest.approx(page.shares["spin"], abs=0.02)  # it calls nothing
    assert percent(table["seventy"][2]) == pytest.approx(page.shares["seventy"], abs=0.001) and percent(table["seventy"][0]) < 0.05
    assert search(page, "thirty") == "1 function"
    click(page, "td.f button")
    assert page.text("#details .who b") == "thirty" and page.text("#note").startswith("Flame graph")


@pytest.mark.parametrize("ending", ["html", "svg"])
def test_of_nothing_it_says_so(browser, alula_bin, tmp_path, ending):
    out = tmp_path / f"out.{ending}"
    with running(sys.executable, "-c", "import time; print(flush=True); time.sleep(1000)", patience=0) as process:
        subprocess.run([alula_bin, "profile", str(process.pid), "-o", out, "-d", "0.5", "--quiet", "--gil"], check=True)
    browser.open(out)
    assert "--idle also counts" in browser.text(".empty") and "0 samples" in browser.text("#note")
    for view in "231":
        browser.key(view)
    search(browser, "x")
    for key in ("Enter", "ArrowDown", "Escape", "Home"):
        browser.key(key)


def test_a_job_has_its_ranks_side_by_side(browser, alula_bin, tmp_path):
    program, launcher, out = tmp_path / "shares.py", tmp_path / "torchrun", tmp_path / "job.html"
    program.write_text(test_profile.SHARES)
    launcher.write_text(LAUNCHER)
    with running(sys.executable, launcher, program, 60, lines=3) as process:
        subprocess.run([alula_bin, "profile", str(process.pid), "-o", out, "-d", "2s", "-s", "--quiet"], check=True)
    browser.open(out)
    row = list(boxes_of_row(browser, 1))
    assert sorted(re.sub(r"process \d+, ", "", name) for name in row if "rank" in name) == ["rank 0 of 2", "rank 1 of 2"]
    choices = browser.evaluate("[...document.querySelectorAll('#choose-who option')].map(o => [o.value, o.textContent])")
    value, name = next(choice for choice in choices if choice[1].endswith("rank 1 of 2"))
    browser.choose("#choose-who", value)
    assert set(boxes_of_row(browser, 1)) == {name}


def test_dark_and_light(page):
    ground = "getComputedStyle(document.querySelector('.al')).backgroundColor"
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    page.dark()
    assert sum(map(int, re.findall(r"\d+", page.evaluate(ground)))) < 120


@pytest.mark.parametrize("ending", ["html", "svg"])
def test_without_scripts_it_is_a_picture(browser, profiles, ending):
    browser.scripts(False)
    browser.open(profiles[ending])
    browser.scripts(True)
    assert browser.evaluate("document.querySelector('.al')") is None
    boxes = browser.evaluate("[...document.querySelectorAll('#picture g')].map(g => [g.children[0].textContent.split(' (')[0], g.children[1].getBoundingClientRect().width])")
    width = collections.Counter()
    for name, wide in boxes:
        width[name] += wide
    shares = test_profile.page_shares(test_profile.page_data(profiles[ending]))
    assert width["seventy"] / width["thirty"] == pytest.approx(shares["seventy"] / shares["thirty"], rel=0.02)


@pytest.mark.parametrize("ending", ["html", "svg"])
def test_hostile_names_do_nothing(browser, alula_bin, tmp_path, ending):
    program, out = tmp_path / "hostile.py", tmp_path / f"out.{ending}"
    program.write_text(test_profile.HOSTILE)
    with running(sys.executable, program, 60, patience=0) as process:
        subprocess.run([alula_bin, "profile", str(process.pid), "-o", out, "-d", "2s", "--rate", "500", "--quiet"], check=True)
    browser.open(out)
    for view in "1231":
        browser.key(view)
    assert search(browser, "<img src=x") == search(browser, "<img") and percent(search(browser, "<img")) > 0
    browser.key("Enter")
    assert browser.text("#details .who b") == "'\"><img src=x onerror=alert(1)>"
    assert browser.evaluate("document.title") != "taken"
    assert browser.evaluate("document.querySelectorAll('img, iframe, object, a').length") == 0
    assert browser.evaluate("document.querySelectorAll('script').length") == 2
    if ending == "html":  # and what would get in could not run
        browser.evaluate("document.body.append(Object.assign(document.createElement('script'), {textContent: 'document.title = \"taken\"'}))")
        assert browser.evaluate("document.title") != "taken" and len(browser.errors) == 1
        browser.errors.clear()


def with_data(path, nodes, frames, runs):
    """A page of alula's with other stacks in it, of one thread."""
    data = test_profile.page_data(path)
    data["files"] = ["", "/w/train.py"]
    data["frames"] = [[name, 1, line, 1, 0, ""] for name, line in frames] + [["[rarer stacks]", 0, 0, 0, 2, ""]]
    data["nodes"], data["tracks"] = nodes, [{**data["tracks"][0], "runs": runs}]
    return re.sub(r'(id="data">).*?(</script>)', lambda m: m[1] + json.dumps(data) + m[2], path.read_text(), flags=re.DOTALL)


def test_recursion_can_be_one_box(browser, profiles, tmp_path):
    out, frames = tmp_path / "recursion.html", [("main", 9), ("walk", 1), ("walk", 2), ("leaf", 5)]
    # main, walk 1, walk 2, walk 1, leaf: three samples; main, walk 1: one
    out.write_text(with_data(profiles["html"], [0, 0, 1, 1, 2, 2, 3, 1, 4, 3], frames, [4, 0, 3, 1, 1, 3, 1, 1]))
    browser.open(out)

    def depth_of_leaf():
        search(browser, "leaf")
        browser.key("Enter")
        depth = 0
        while browser.text("#details .who b") != "all":
            browser.key("ArrowUp")
            depth += 1
        return depth

    assert depth_of_leaf() == 5
    browser.choose("#choose-merge", "folded")
    assert depth_of_leaf() == 3 and percent(search(browser, "walk")) == 1 and percent(search(browser, "leaf")) == 0.75
    browser.key("Enter")
    browser.key("ArrowUp")
    assert "line 1 (100 %)" in browser.text("#details .lines")  # where walk was called first
    browser.choose("#choose-start", "callees")
    assert percent(search(browser, "leaf")) == 0.75 and percent(search(browser, "walk")) == 1
    browser.evaluate("document.activeElement.blur()")
    browser.key("2")
    assert percent(search(browser, "leaf")) == 0.75


def stacks(path, many):
    """`many` stacks of 12 frames, all of them different."""
    nodes, known, runs = [], {}, []
    for i in range(many):
        parent = 0
        for depth in range(12):
            key = parent, i >> 2 * max(0, 8 - depth)  # callers are shared, four to one
            if key not in known:
                nodes += [parent, (key[1] * 7 + depth) % 500]
                known[key] = len(nodes) // 2
            parent = known[key]
        runs += [parent - 1, i, 1, 1]
    return with_data(path, nodes, [(f"function_{i}", i) for i in range(500)], runs)


def test_hundreds_of_thousands_of_stacks(browser, profiles, tmp_path):
    out = tmp_path / "large.html"
    out.write_text(stacks(profiles["html"], 200_000))
    browser.open(out)
    assert "200,000 samples" in browser.text("#note")
    assert 0 < percent(search(browser, "function_77")) < 1
    for view, words in (("2", "Flame chart"), ("3", "Self"), ("1", "Flame graph")):
        browser.evaluate("document.activeElement.blur()")
        browser.key(view)
        assert browser.text("#note").startswith(words)
    x, y = middle(browser)
    assert hovered(browser, x, y + 4 + 19 + 9).startswith("function_")
