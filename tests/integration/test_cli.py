# SPDX-License-Identifier: Apache-2.0
"""The command line as a whole: help, completion, manual pages, generated docs, errors, locales, no driver."""

import os
import re
import shlex
import shutil
import subprocess

import pytest

import scenes

COMMANDS = ["top", "watch", "ps", "run", "attach", "dump", "stacks", "profile", "ask", "report", "compare", "serve", "record", "replay", "export", "info", "plot", "stat", "smi", "memory", "doctor", "demo", "check-config", "completion", "help"]
NO_DRIVER = {"ALULA_NVML_LIBRARY": "/nonexistent/libnvidia-ml.so.1"}


@pytest.fixture
def scene(tmp_path):
    path = tmp_path / "scene.txt"
    path.write_text(scenes.busy(2, "2s"))
    return f"scenario:{path}"


def one_line(got, status):
    assert got.returncode == status
    assert got.stdout == ""
    assert re.fullmatch(r"alula: [^\n\x00-\x1f]+\n", got.stderr), got.stderr
    return got.stderr


# --- help -----------------------------------------------------------------------------------------------------------


def help_of(alula, *command):
    got = alula(*command, "--help")
    assert (got.returncode, got.stderr) == (0, "")
    return got.stdout


def listed(text):
    """The options that begin a line of a help text: ["-c", "--show-cmd"]."""
    found = []
    for line in text.splitlines():
        match = re.match(r"\s+(-{1,2}[A-Za-z][\w-]*(?:(?:, | )-{1,2}[A-Za-z][\w-]*)*)", line)
        if match:
            found += re.findall(r"-{1,2}[A-Za-z][\w-]*", match[1])
    return set(found)


def mentioned(text):
    return set(re.findall(r"(?<![\w-])-{1,2}[A-Za-z][\w-]*", text))


def test_help_names_every_command(alula):
    got = alula("--help")
    assert got.returncode == 0
    assert re.findall(r"^  (\S+)  ", got.stdout, re.M) == COMMANDS
    assert alula("-h").stdout == got.stdout
    bare = alula()
    assert bare.returncode == 2 and bare.stdout == "" and bare.stderr == got.stdout


def test_version(alula, root):
    version = re.search(r"version: '([\d.]+)'", (root / "meson.build").read_text())[1]
    for option in ("--version", "-V"):
        assert alula(option).stdout == f"alula {version}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_examples(alula, command):
    text = help_of(alula, command)
    assert text == alula("help", command).stdout or command == "help"
    assert f"alula {command}" in text
    assert all(len(line) <= 130 for line in text.splitlines())


def test_examples_in_help_are_accepted(alula, scene):
    """An example with a wrong option would be worse than none. What they print is tested elsewhere."""
    for command in ("stat", "memory"):
        for line in help_of(alula, command).split("Examples:\n")[1].split("\n\n")[0].splitlines():
            words = shlex.split(re.split(r"\s{3,}|\s\|", line.strip())[0].replace("$(", "").replace(")", ""))
            assert words[:2] == ["alula", command]
            args = [w for w in words[2:] if w.startswith("--")]
            if "-i" not in words:
                assert alula(command, *args, *(["1"] if command == "memory" else []), "--source", scene).returncode != 2


def test_help_on_metrics(alula):
    got = alula("help", "utilization_ratio")
    assert got.returncode == 0
    assert got.stdout.startswith("utilization_ratio\n  Share of the driver's last sample period in which at least one kernel ran.")
    assert "how much of the GPU" in got.stdout
    many = alula("help", "nvlink").stdout
    assert "nvlink_active_links\n" in many and "gpm_nvlink_rx_bytes_per_second\n" in many
    assert "no command or metric nonsense" in one_line(alula("help", "nonsense"), 5)


# --- errors ---------------------------------------------------------------------------------------------------------


def test_unknown_command(alula):
    assert "no command wathc; alula --help lists them" in one_line(alula("wathc"), 2)


def test_unknown_command_cannot_steer_the_terminal(alula):
    one_line(alula("x\x1b[2J\ny"), 2)


# smi answers as nvidia-smi does, and what is not demo's is watch's: tested with them.
@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in ("smi", "help", "demo")])
def test_unknown_option(alula, command):
    got = alula(command, "--bogus")
    assert got.returncode == (125 if command == "run" else 2) and got.stdout == ""
    assert "--bogus" in got.stderr and got.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["watch", "stat", "memory", "doctor"])
def test_missing_value_of_an_option(alula, command):
    got = alula(command, "--source")
    assert got.returncode == 2 and got.stderr.count("\n") == 1 and "source" in got.stderr


@pytest.mark.parametrize("command", [["watch"], ["stat"], ["memory", "1"], ["doctor"],
                                     ["smi", "--query-gpu=name", "--format=csv"]])
def test_source_that_makes_no_sense(alula, command, tmp_path):
    assert "expected nvml, scenario:FILE or replay:FILE" in one_line(alula(*command, "--source", "rocm"), 2)
    one_line(alula(*command, "--source", f"scenario:{tmp_path}/none"), 5)
    one_line(alula(*command, "--source", f"scenario:{tmp_path}"), 6)
    broken = tmp_path / "broken.txt"
    broken.write_text("alula scenario 1\ngpu 0\n@0s\ngpu 0 utilization_rat=3%\n")
    assert f"{broken}:4:7: 'utilization_rat' is no metric of a GPU" in one_line(
        alula(*command, "--source", f"scenario:{broken}"), 6)
    broken.write_bytes(b"\x00\xff\x1b[2J\n" * 10)
    one_line(alula(*command, "--source", f"scenario:{broken}"), 6)
    broken.write_bytes(b"")
    one_line(alula(*command, "--source", f"scenario:{broken}"), 6)


def test_source_from_the_environment(alula, scene):
    assert alula("stat", env={"ALULA_SOURCE": scene}).stdout == alula("stat", "--source", scene).stdout


@pytest.mark.parametrize("command", [["watch", "--for", "1s"], ["stat"], ["memory", "1"]])
def test_no_driver_library(alula, command):
    """One line that says what to do, and the status of its kind."""
    assert "libnvidia-ml.so.1" in one_line(alula(*command, env=NO_DRIVER), 12)
    assert "alula doctor" in alula(*command, env=NO_DRIVER).stderr


def test_smi_without_a_driver_says_what_nvidia_smi_says(alula):
    got = alula("smi", "--query-gpu=name", "--format=csv", env=NO_DRIVER)
    assert got.returncode == 12 and "NVIDIA-SMI couldn't find libnvidia-ml.so library" in got.stdout


def test_library_that_is_none(alula, tmp_path):
    fake = tmp_path / "libnvidia-ml.so.1"
    fake.write_bytes(b"not an ELF file")
    one_line(alula("stat", env={"ALULA_NVML_LIBRARY": str(fake)}), 12)


@pytest.mark.plain
def test_library_without_the_functions(alula):
    libc = next(line.split()[-1] for line in open("/proc/self/maps") if "/libm.so" in line or "/libc.so" in line)
    assert "lacks nvmlInit_v2" in one_line(alula("stat", env={"ALULA_NVML_LIBRARY": libc}), 12)


# --- locale ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def german(tmp_path_factory):
    """LOCPATH with de_DE.UTF-8, whose decimal point is a comma."""
    if not shutil.which("localedef") or not os.path.exists("/usr/share/i18n/locales/de_DE"):
        pytest.skip("no localedef or no locale sources here (Debian: locales)")
    folder = tmp_path_factory.mktemp("locale")
    subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", str(folder / "de_DE.UTF-8")], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder


@pytest.mark.parametrize("args", [["watch", "--json", "--quiet", "--speed", "0"], ["watch", "--compat", "--speed", "0"],
                                  ["watch", "--speed", "0", "--summary"], ["stat", "-P"], ["stat", "--json"], ["doctor", "--json"],
                                  ["smi", "--query-gpu=power.draw,memory.used,timestamp", "--format=csv"]])
def test_a_decimal_comma_changes_nothing(alula, scene, german, args):
    # glibc itself forgets what it made of LOCPATH, which a leak checker tells.
    german_env = {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "LOCPATH": str(german), "TZ": "UTC",
                  "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
    # Cost differs from run to run.
    steady = lambda text: re.sub(r'"cpu_ratio":[\d.e+-]+|own cost [\d.]+|"query_time": "[^"]*"', "", text)
    want, got = (alula(*args, "--source", scene, env=env) for env in ({"TZ": "UTC"}, german_env))
    assert got.returncode == want.returncode
    assert steady(got.stdout) == steady(want.stdout)
    config = alula("check-config", "--print", env=german_env).stdout
    assert "utilization_below: 20%" in config and re.search(r"slope_above: 1MiB/s", config)


def test_numbers_are_read_with_a_point_everywhere(alula, tmp_path, german):
    config = tmp_path / "c.yaml"
    config.write_text("memory:\n  used_above: 0.85\n  window: 1.5min\n")
    env = {"LC_ALL": "de_DE.UTF-8", "LOCPATH": str(german)}
    out = alula("check-config", "--print", config, env=env).stdout
    assert "used_above: 85%" in out and "window: 1.5min" in out


def test_c_locale(alula, scene):
    got = alula("watch", "--source", scene, "--speed", "0", env={"LC_ALL": "C", "LANG": "C", "TZ": "UTC"})
    assert got.returncode == 0 and got.stdout.isascii()


# --- completion -----------------------------------------------------------------------------------------------------


def lines_of(command, env=None):
    got = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=env)
    assert got.returncode == 0 and got.stderr == "", got.stderr
    return [line.split("\t")[0] for line in got.stdout.splitlines() if line]


def bash(root, alula_bin, words):
    words = [str(alula_bin), *words[1:]]
    script = (f"source {root}/completion/alula.bash; COMP_WORDS=({' '.join(map(shlex.quote, words))}); "
              f"COMP_CWORD={len(words) - 1}; _alula; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
    return lines_of(["bash", "--norc", "-c", script])


def zsh(root, alula_bin, words):
    if not shutil.which("zsh"):
        pytest.skip("no zsh here")
    words = [str(alula_bin), *words[1:]]
    # The completion system's builtins, reduced to printing what they are given; zsh itself filters by the prefix.
    script = ("compadd() { while [[ $1 != -- ]]; do shift; done; shift; print -l -- $@ }; compset() { : }; _files() { : }; "
              f"source {root}/completion/_alula; words=({' '.join(map(shlex.quote, words))}); CURRENT={len(words)}; _alula")
    prefix = words[-1].split("=")[-1]
    return [word for word in lines_of(["zsh", "-fc", script]) if word.startswith(prefix)]


def fish(root, alula_bin, words):
    if not shutil.which("fish"):
        pytest.skip("no fish here")
    env = {**os.environ, "HOME": "/nonexistent", "PATH": f"{alula_bin.parent}:{os.environ['PATH']}"}
    line = " ".join(words)
    got = subprocess.run(["fish", "--no-config", "-c", f"source {root}/completion/alula.fish; complete -C '{line}'"], env=env,
                         capture_output=True, text=True, timeout=30, check=False)
    assert got.returncode == 0
    return [text.split("\t")[0] for text in got.stdout.splitlines()]


SHELLS = [bash, zsh, fish]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("command", [[c] for c in COMMANDS] + [["smi", "dmon"], ["smi", "pmon"], ["demo", "watch"]],
                         ids=" ".join)
def test_completion_has_the_options_of_help_and_no_others(alula, alula_bin, root, shell, command):
    text = help_of(alula, *(command[1:] if command[0] == "demo" and len(command) > 1 else command))
    words = set(shell(root, alula_bin, ["alula", *command, "--"])) | set(shell(root, alula_bin, ["alula", *command, "-"]))
    words = {word.rstrip("=") for word in words if word.startswith("-")}
    assert listed(text) - words == set()
    assert words - mentioned(text) - {"--help", "-h"} == set()


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_of_words(alula_bin, root, shell):
    def complete(*words):
        return sorted(shell(root, alula_bin, ["alula", *words]))

    assert complete("") == sorted(COMMANDS)
    assert complete("st") == ["stacks", "stat"]
    assert complete("watch", "--fail-on", "") == ["critical", "info", "warning"]
    assert complete("completion", "") == ["bash", "fish", "zsh"]
    assert complete("smi", "d") == ["dmon"]
    assert complete("demo", "") == ["doctor", "memory", "smi", "stat", "top", "watch"]
    assert complete("help", "utilization_") == ["utilization_mean_ratio", "utilization_ratio"]
    assert complete("stat", "--show-power", "draw") == ["draw", "draw,limit"]


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_of_processes_and_of_profiles(alula_bin, root, shell):
    def complete(*words):
        return shell(root, alula_bin, ["alula", *words])

    pid = str(os.getpid())
    for command in ("attach", "dump", "stacks", "profile", "ask", "memory"):
        assert pid in complete(command, "") and complete(command, pid) == [pid], command
    for command in ("dump", "stacks", "profile"):
        for option in ("-p", "--pid"):
            assert pid in complete(command, option, ""), (command, option)
    for option in ("--duration", "--rate", "-d", "-r"):
        assert complete("profile", option, "") == complete("stacks", option, "") == []
    formats = ["flamegraph", "svg", "speedscope", "folded", "pprof", "chrome", "alula"]
    for option in ("-f", "--format"):
        assert sorted(complete("profile", option, "")) == sorted(formats)


def test_bash_completes_files_of_profiles(alula_bin, root, tmp_path):
    (tmp_path / "run.alula").touch()
    for words in (["profile", "--from"], ["profile", "-o"], ["smi", "-f"]):
        assert bash(root, alula_bin, ["alula", *words, f"{tmp_path}/"]) == [f"{tmp_path}/run.alula"]


def test_bash_completes_behind_an_equals_sign(alula_bin, root):
    assert bash(root, alula_bin, ["alula", "watch", "--fail-on", "=", "w"]) == ["warning"]
    assert bash(root, alula_bin, ["alula", "watch", "--fail-on", "="]) == ["info", "warning", "critical"]


def test_completion_prints_the_files_that_are_installed(alula, root):
    for name, file in (("bash", "alula.bash"), ("zsh", "_alula"), ("fish", "alula.fish")):
        got = alula("completion", name)
        assert got.returncode == 0
        assert got.stdout == (root / "completion" / file).read_text()
    for args in ([], ["tcsh"], ["bash", "zsh"]):
        one_line(alula("completion", *args), 2)


# --- manual pages and generated docs --------------------------------------------------------------------------------


def pages(root):
    return sorted((root / "man").glob("*.[135]"))


def test_every_command_has_a_page(root):
    assert {p.name for p in pages(root)} == {f"alula-{c}.1" for c in COMMANDS} | {"alula.1", "alula.yaml.5", "libalula.3"}
    listed_pages = set(re.findall(r"'([^']+\.\d)'", (root / "man" / "meson.build").read_text()))
    assert listed_pages == {p.name for p in pages(root)}


def test_pages_are_sound(root):
    tool = shutil.which("mandoc")
    if not tool:
        pytest.skip("no mandoc here")
    for page in pages(root):
        out = subprocess.run([tool, "-T", "lint", "-W", "warning", page], capture_output=True, text=True, check=False).stdout
        # The pages carry no date: a release's is the one that counts.
        assert [line for line in out.splitlines() if "missing date" not in line] == []


@pytest.mark.parametrize("command", [c for c in COMMANDS if c != "smi"])
def test_page_has_the_options_of_help(alula, root, command):
    page = (root / "man" / f"alula-{command}.1").read_text().replace("\\-", "-")
    common = mentioned((root / "man" / "alula.1").read_text().replace("\\-", "-"))
    missing = listed(help_of(alula, command)) - mentioned(page) - common
    assert missing == set()


def options_of(root, name):
    """What getopt takes in src/cli/NAME.c: {"--pid", "-p", ...}."""
    source = (root / "src" / "cli" / f"{name}.c").read_text()
    letters = re.search(r'getopt_long\(argc, argv, "\+?([\w:]+)"', source)[1].replace(":", "")
    table = source.split("static const struct option")[1].split("};")[0]
    return {f"--{word}" for word in re.findall(r'{"([a-z-]+)",', table)} | {f"-{letter}" for letter in letters}


@pytest.mark.parametrize("command, source, quiet", [("dump", "dump", set()), ("stacks", "live", set()),
                                                    ("profile", "profile", {"--full-filenames", "--hideprogress"})])  # py-spy's, always so
def test_stack_commands_have_the_same_options_everywhere(alula, root, command, source, quiet):
    """What is taken, what --help lists, and what the page has an entry for."""
    taken = options_of(root, source) - quiet - {"-h"}
    help_text = help_of(alula, command)
    page = (root / "man" / f"alula-{command}.1").read_text().replace("\\-", "-")
    entries = set()
    for tag in re.findall(r"^\.TP\n(.*)", page.split("\n.SH OPTIONS")[1].split("\n.SH EXIT STATUS")[0], re.M):
        entries |= mentioned(re.sub(r"\\f.|[\",]", " ", tag))
    assert taken == entries
    told, examples = help_text.split("Examples:\n")
    assert taken - mentioned(told) == mentioned(told) - taken == set()
    examples = re.findall(r"^  alula (.*)", examples, re.M) + re.findall(r"^\.B alula (.*)", page, re.M)
    shown = [re.split(r" -- | \| ", example)[0] for example in examples if example.startswith(command)]
    assert len(shown) >= 5 and mentioned(" ".join(shown)) - taken == set()


def test_references_between_pages_exist(root):
    names = {p.name for p in pages(root)}
    for page in pages(root):
        for name, section in re.findall(r"^\.BR (?:.*see \" )?(alula\S*|libalula) \((\d)\)", page.read_text(), re.M):
            assert f"{name.replace(chr(92), '')}.{section}" in names, (page.name, name)


def test_help_takes_one_word(alula):
    got = alula("help", "sm_active_ratio", "power_watts")
    assert (got.returncode, got.stdout) == (2, "") and "not also power_watts" in got.stderr


def test_wrong_options_name_the_command(alula):
    got = alula("stat", "--unheard-of")
    assert (got.returncode, got.stdout, got.stderr) == (2, "", "alula stat: unrecognized option '--unheard-of'\n")


def test_generated_pages_are_up_to_date(alula, alula_bin, root):
    """`make docs` writes them anew."""
    assert alula("help", "--markdown").stdout == (root / "docs" / "metrics.md").read_text()
    page = root / "man" / "alula.yaml.5"
    made = subprocess.run([root / "tools" / "man-settings", alula_bin, page], capture_output=True, text=True, check=True).stdout
    assert made == page.read_text()


def test_every_availability_has_its_generations(alula):
    table = alula("help", "--markdown").stdout.split("## What each GPU generation can give")[1]
    rows = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("|")][2:]
    assert len(rows) > 10
    for row in rows:
        assert len(row) == 8 and {cell.strip() for cell in row[2:]} <= {"yes", "no", "by board", "by driver"}, row
    assert sum(int(row[1].split(":")[0]) for row in rows) == len(re.findall(r"^  \S", alula(
        "help", "--metrics").stdout.split("Metrics of a process")[0], re.M))


def test_install_puts_things_where_they_are_looked_for(build, tmp_path):
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--destdir", tmp_path], check=True, capture_output=True)
    files = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    for end in ("bin/alula", "share/man/man1/alula.1", "share/man/man1/alula-watch.1", "share/man/man5/alula.yaml.5",
                "share/bash-completion/completions/alula", "share/zsh/site-functions/_alula",
                "share/fish/vendor_completions.d/alula.fish", "include/alula/alula.h"):
        assert [f for f in files if f.endswith(end)], end
    standin = [f for f in files if f.endswith("libnvidia-ml.so.1")]
    # Only alula's own demo opens it: no folder that a loader searches.
    assert len(standin) == 1 and standin[0].endswith("alula/standin/libnvidia-ml.so.1")
