#!/usr/bin/env python3
"""Runs ZooKeeper's own shell over the commands of shell.expected and compares what it prints with what it printed against a real ZooKeeper 3.8.4.

    shell.py JARS CONNECT_STRING             prints `ok` or `FAIL` for each command, then the sums
    shell.py --capture JARS CONNECT_STRING   writes the answers of these servers to shell.expected

JARS is the folder with ZooKeeper's jars. shell.expected holds, for each step, a line `#### NAME: COMMAND` and the answer, where @ in a
command is a root that no other run uses. In the answers that root is ROOT; zxids are named Z1, Z2, ... in the order in which they
first appear, so that equal zxids stay equal; times and session ids lose their values.
"""

import difflib
import pathlib
import re
import secrets
import subprocess
import sys

EXPECTED = pathlib.Path(__file__).with_name("shell.expected")
SHELL_LIMIT_SECONDS = 120
NOISE = r"(?m)^(log4j:.*|SLF4J:.*|Connecting to .*|Welcome to ZooKeeper!|JLine support is disabled|Picked up JAVA_TOOL_OPTIONS.*)\n"
CONNECTION_EVENT = r"\n?WATCHER::\n+WatchedEvent state:(SyncConnected|Closed|Disconnected) type:None path:null\n"


def read_expected():
    """Name, command and answer of each step."""
    steps = re.findall(r"(?ms)^#### ([\w-]+): (.*?)\n(.*?)(?=^#### |\Z)", EXPECTED.read_text())
    return [(name, command, answer.strip("\n")) for name, command, answer in steps]


def run_shell(jars, servers, commands, limit_seconds):
    """What the shell prints, and its exit code or that it did not end in time."""
    arguments = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dlog4j.configuration=none", "-cp", f"{jars}/*",
                 "org.apache.zookeeper.ZooKeeperMain", "-waitforconnection", "-timeout", "15000", "-server", servers]
    try:
        ended = subprocess.run(arguments, input="\n".join(commands) + "\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               timeout=limit_seconds)
        return ended.stdout, ended.returncode
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").decode(), f"none within {limit_seconds} s"


def mark(root, index):
    """A path that is not there: the shell's complaint about it tells where the answer to step `index` ends."""
    return f"{root}-mark-{index}"


def answers(jars, servers, steps):
    """The answer to each step, normalised. The last step is `quit`: its answer is the exit code."""
    root = "/shell-" + secrets.token_hex(6)
    commands = []
    for index, (_, command, _) in enumerate(steps):
        commands.append(command.replace("@", root))
        if command != "quit":
            commands.append(f"get {mark(root, index)}")
    printed, exit_code = run_shell(jars, servers, commands, SHELL_LIMIT_SECONDS)
    printed = re.sub(CONNECTION_EVENT, "", re.sub(NOISE, "", printed))
    normalise = Normaliser(root)
    got = {}
    for index, (name, command, _) in enumerate(steps):
        if command == "quit":
            got[name] = f"{normalise(printed)}\nexit {exit_code}".strip("\n")
            continue
        answer, end, rest = partition_at_line_with(mark(root, index), printed)
        if end:
            got[name], printed = normalise(answer), rest
        else:
            got[name] = f"no answer; the shell's last words: {normalise(printed)[-300:]}"
    return got, root


def partition_at_line_with(text, printed):
    """What comes before the line that contains the text, that line, and what comes after it."""
    found = re.search(r"(?m)^.*" + re.escape(text) + r"\n", printed)
    return (printed[: found.start()], found.group(), printed[found.end() :]) if found else (printed, "", "")


class Normaliser:
    """Takes out of an answer what differs from run to run."""

    def __init__(self, root):
        self.root = root
        self.zxids = {}

    def __call__(self, text):
        text = text.replace(self.root[1:], "ROOT")
        text = re.sub(r"([cmp]Zxid = )(0x[0-9a-f]+)", self.name_zxid, text)
        text = re.sub(r"(?m)^([cm]time = ).*$", r"\1TIME", text)
        text = re.sub(r"(ephemeralOwner = )0x[0-9a-f]{2,}", r"\1SESSION", text)
        text = re.sub(r"(ZooKeeper CLI version: ).*", r"\1V", text)
        # The paths of getEphemerals and the users of whoami come in any order.
        text = re.sub(r"(?m)^\[(/[^\[\]]*)\]$", lambda found: "[" + ", ".join(sorted(found.group(1).split(", "))) + "]", text)
        text = re.sub(r"(Auth scheme: User\n)((?:.+\n?)+)", self.sort_users, text)
        return re.sub(r"[ \t]+$", "", text, flags=re.M).strip("\n")

    @staticmethod
    def sort_users(found):
        return found.group(1) + "\n".join(sorted(found.group(2).split("\n"))).strip("\n")

    def name_zxid(self, found):
        return found.group(1) + self.zxids.setdefault(found.group(2), f"Z{len(self.zxids) + 1}")


def difference(wanted, got):
    lines = difflib.unified_diff(wanted.split("\n"), got.split("\n"), lineterm="", n=0)
    return " | ".join(line for line in list(lines)[2:] if not line.startswith("@@"))[:400]


def main():
    arguments = sys.argv[1:]
    capture = arguments[:1] == ["--capture"]
    if len(arguments) != 2 + capture:
        sys.exit(__doc__)
    jars, servers = arguments[-2:]
    steps = read_expected()
    got, root = answers(jars, servers, steps)
    run_shell(jars, servers, ["addauth digest ann:pw", f"delquota {root}", f"deleteall {root}", "quit"], limit_seconds=60)
    if capture:
        EXPECTED.write_text("".join(f"#### {name}: {command}\n{got[name]}\n" for name, command, _ in steps))
        print(f"captured {len(steps)} steps")
        return
    failed = 0
    for name, command, wanted in steps:
        if got[name] == wanted:
            print(f"ok   {name}")
        else:
            failed += 1
            print(f"FAIL {name} ({command}): {difference(wanted, got[name])}")
    print(f"{len(steps) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
