"""What the suites of the Python clients share: arguments, how a case tells what it found, waiting, groups through joins and leaves.

    <program> --bootstrap HOST:PORT [--admin URL] [CASE…]

One line a case; exits 1 if one failed.
"""

import itertools
import os
import sys
import threading
import time
import traceback
import urllib.request

BOOTSTRAP = None
"""Where agents are stopped and started, or None."""
ADMIN = None

FIRST_MS = 1_600_000_000_000
"""The timestamp of the first numbered record; record i is i seconds later."""

GROUP_PARTITIONS = 6

_run = format(time.time_ns() // 1_000_000, "x")
_names = itertools.count(1)


class Failed(Exception):
    pass


class Skipped(Exception):
    """This client, or this server, has no such thing."""


def _shorten(value):
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:400]}… ({len(text)} characters)"


def expect(what, got, wanted):
    if got != wanted:
        raise Failed(f"{what} (expected {_shorten(wanted)}, got {_shorten(got)})")


def until(what, holds, describe):
    """Looks every tenth of a second until `holds`; fails after a minute with what `describe` tells."""
    deadline = time.monotonic() + 60
    while not holds():
        if time.monotonic() > deadline:
            raise Failed(f"not within a minute: {what} (got {_shorten(describe())})")
        time.sleep(0.1)


def new_name(client, name):
    """A name for a topic or group that no other case and no other run has."""
    return f"{client}-{name}-{_run}-{next(_names)}"


def numbered(name, count):
    return [f"{name} {i}" for i in range(count)]


def repetitive():
    """Values that a codec makes smaller."""
    return [f"value {i} " + "again " * (i % 50) for i in range(500)]


def large(i):
    """40 kB."""
    return (f"large {i} " * 6_000)[:40_000]


def agent(node, verb):
    """Asks for an agent to be stopped or started: `verb` is "stop" or "start"."""
    request = urllib.request.Request(f"{ADMIN}/agents/{node}/{verb}", method="POST")
    with urllib.request.urlopen(request) as answer:
        expect(f"{verb} of agent {node}: status", answer.status // 100, 2)


def at_a_steady_pace(count, leader, send):
    """Calls `send(i)`, while the agent that leads the partition stops, and comes back."""
    if ADMIN is None:
        raise Skipped("no address to stop an agent by")
    node = leader()
    for i in range(count):
        send(i)
        if i == 300:
            agent(node, "stop")
        if i == 700:
            agent(node, "start")
        time.sleep(0.005)


class Member(threading.Thread):
    """A member of a group on a thread of its own; a client's subclass says how it polls. `owned` holds partition numbers."""

    def __init__(self):
        super().__init__(daemon=True)
        self.owned = set()
        self.values = []
        self.changes = 0
        self.error = None
        self.stopped = False

    def poll(self):
        """Polls once, keeps the values, and commits them."""
        raise NotImplementedError

    def leave(self):
        raise NotImplementedError

    def given(self, partitions):
        self.owned = self.owned | set(partitions)
        self.changes += 1

    def taken(self, partitions):
        self.owned = self.owned - set(partitions)
        self.changes += 1

    def run(self):
        try:
            while not self.stopped:
                self.poll()
            self.leave()
        except Exception as error:  # Told by `close`.
            self.error = f"{type(error).__name__}: {error} at {_own_line(error)}"

    def close(self):
        self.stopped = True
        self.join(30)
        expect("a member still runs", self.is_alive(), False)
        expect("what a member met", self.error, None)


def until_shared(*members):
    """Every partition is owned by exactly one member, and every member has its equal share."""
    share = GROUP_PARTITIONS // len(members)

    def holds():
        owned = [p for m in members for p in m.owned]
        return sorted(owned) == list(range(GROUP_PARTITIONS)) and all(len(m.owned) == share for m in members)

    until(f"{len(members)} members share the partitions", holds, lambda: [(m.owned, m.error) for m in members])


def until_committed(committed, offset):
    until(f"offset {offset} is committed everywhere", lambda: committed() == [offset] * GROUP_PARTITIONS, committed)


def rebalance(join, send, committed):
    """Two members, a third joins, the first leaves, all leave, a new one goes on where they were. Records come all the while.

    `join()` is a new member; `send(name, count)` puts so many into each partition and returns the values; `committed()` are the
    group's offsets, by partition.
    """
    sent = send("a", 20)
    a, b = join(), join()
    until_shared(a, b)
    sent += send("b", 20)
    c = join()
    sent += send("c", 20)
    until_shared(a, b, c)
    sent += send("d", 20)
    a.close()
    sent += send("e", 20)
    until_shared(b, c)

    def received():
        return sorted(a.values + b.values + c.values)

    until("all records are handed out", lambda: len(received()) >= len(sent), lambda: len(received()))
    until_committed(committed, 100)
    b.close()
    c.close()
    expect("records, each handed out once", received(), sorted(sent))

    later = send("f", 1)
    d = join()
    until("a new member goes on", lambda: len(d.values) >= len(later), lambda: d.values)
    until_committed(committed, 101)
    d.close()
    expect("records of the new member", sorted(d.values), sorted(later))


def static_member(join, generation):
    """One that comes back within its session finds its partitions, and nobody notices. `join(instance)` is a static member.

    `generation(member)` is None where the client does not tell it.
    """
    first, second = join("one"), join("two")
    until_shared(first, second)
    time.sleep(1)
    before, changes, owned = generation(first), first.changes, second.owned
    second.close()
    again = join("two")
    until("the member that came back owns its partitions", lambda: again.owned == owned, lambda: (again.owned, again.error))
    time.sleep(2)
    expect("generation of the one that came back", generation(again), before)
    expect("generation of the other", generation(first), before)
    expect("rebalances of the other meanwhile", first.changes - changes, 0)
    first.close()
    again.close()


def held_end_txn(topic, begin, send, commit, abort):
    """What a user is told whose first EndTxn is held on its way, and let go in the middle of the next transaction.

    Not a check: the script .ci/vulnerability holds, releases, and looks what became of the transactions. It is asked for each by a
    line on standard output, and answers with one on standard input. `send(partition, value)` waits for what becomes of it.
    """

    def ask(what):
        print(what, flush=True)
        sys.stdin.readline()

    def told(call, body, *arguments):
        try:
            body(*arguments)
            what = "ok"
        except Exception as error:
            what = f"{type(error).__name__}: {error}".replace("\n", " ")
        print(f"told {call}: {what}", flush=True)

    begin()
    send(0, "a")
    ask(f"hold {topic}")
    told("commit of a", commit)
    told("begin", begin)
    told("send of b", send, 0, "b")
    ask("release")
    told("send of c", send, 1, "c")
    told("abort of b and c", abort)


def _own_line(error):
    """The last line of the suites in a stack trace."""
    here = os.path.dirname(os.path.abspath(__file__))
    own = [f for f in traceback.extract_tb(error.__traceback__) if os.path.dirname(os.path.abspath(f.filename)) == here]
    return f"{os.path.basename(own[-1].filename)}:{own[-1].lineno}" if own else "an unknown line"


def _ending(name, case, told):
    try:
        case()
        told.append((f"ok {name}", True))
    except Skipped as why:
        told.append((f"skipped {name}: {why}", True))
    except Failed as why:
        told.append((f"FAILED {name}: {why}", False))
    except Exception as error:
        told.append((f"FAILED {name}: {type(error).__name__}: {error} at {_own_line(error)}", False))


def _passes(name, case):
    """One that hangs is left behind."""
    told = []
    thread = threading.Thread(target=_ending, args=(name, case, told), daemon=True)
    thread.start()
    thread.join(150)
    line, passed = told[0] if told else (f"FAILED {name}: not done within 150 s", False)
    print(line.replace("\n", " "), flush=True)
    return passed


def main(cases, by_name_only):
    """Runs the cases that the arguments name, or all of `cases`; those of `by_name_only` run only when they are named."""
    global BOOTSTRAP, ADMIN
    arguments, names = iter(sys.argv[1:]), []
    for argument in arguments:
        if argument == "--bootstrap":
            BOOTSTRAP = next(arguments)
        elif argument == "--admin":
            ADMIN = next(arguments)
        else:
            names.append(argument)

    def unknown():
        raise Failed("no such case")

    known = {**cases, **by_name_only}
    passed = [_passes(name, known.get(name, unknown)) for name in names or cases]
    sys.stdout.flush()
    # Not by returning: a client that was cut off may have left a thread.
    os._exit(0 if all(passed) else 1)
