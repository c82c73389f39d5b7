"""What the JVM tells of its threads is read, and threads of this process are seen as they are."""

import threading

import pytest

from headgate.errors import ExternalError
from headgate.profile.stacks import FlameGraphType, Stacks
from headgate.profile.threads import HELPERS, OwnThreads, parse_jvm, sample_jvm, short, thread_name

FULL, ON, OFF = FlameGraphType.FULL, FlameGraphType.ON_CPU, FlameGraphType.OFF_CPU
TOLD = """\
3\tRUNNABLE\tExecutor task launch worker for task 1.0 in stage 7.0 (TID 15)\tjava.lang.Thread.run:840;org.a.B.run:7
2\tRUNNABLE\tExecutor task launch worker for task 0.0 in stage 8.0 (TID 16)\tjava.lang.Thread.run:840;org.a.B.run:7
100\tRUNNABLE\tnetty-1\tjava.lang.Thread.run:840;sun.nio.ch.EPoll.wait
5\tTIMED_WAITING\tpool-2-thread-1\tjava.lang.Thread.run:840;jdk.internal.misc.Unsafe.park
100\tRUNNABLE\tSignal Dispatcher\t
"""


def test_threads_of_the_jvm_run_unless_they_wait_for_the_system() -> None:
    found = parse_jvm(TOLD)
    worker = ("Executor task launch worker for task # in stage # (TID #)", "java.lang.Thread.run:840", "org.a.B.run:7")
    assert found.counted(ON) == {worker: 5}
    assert found.counted(OFF) == {
        ("netty-#", "java.lang.Thread.run:840", "sun.nio.ch.EPoll.wait"): 100,
        ("pool-#-thread-#", "java.lang.Thread.run:840", "jdk.internal.misc.Unsafe.park"): 5,
        ("Signal Dispatcher",): 100,
    }


@pytest.mark.parametrize(
    "frame",
    [
        "sun.nio.ch.Net.accept",
        "sun.nio.ch.EPoll.wait",
        "io.netty.channel.epoll.Native.epollWait",
        "sun.nio.ch.SocketDispatcher.read0",
        "sun.nio.ch.UnixDomainSockets.accept0",
        "java.io.FileInputStream.readBytes",
        "java.lang.ProcessHandleImpl.waitForProcessExit0",
    ],
)
def test_a_call_of_the_system_that_waits_is_no_work(frame: str) -> None:
    [[_, off]] = parse_jvm(f"1\tRUNNABLE\tt\tjava.lang.Thread.run:840;{frame}\n").counts.values()
    assert off == 1


def test_an_answer_of_another_shape_is_refused_in_one_line() -> None:
    for said in ("what is this", "x\tRUNNABLE\tt\ta.b:1", "1\tRUNNABLE\tt\ta.b:1\tmore"):
        with pytest.raises(ExternalError, match=r"^the JVM answered .* see that its jar is this release's$"):
            parse_jvm(said)


def test_a_job_that_ends_is_not_held_up_by_samples_that_are_missing() -> None:
    stop = threading.Event()
    asked: list[int] = []

    def take(samples: int, _: int) -> str:
        asked.append(samples)
        stop.set()
        return f"{samples}\tRUNNABLE\tt\ta.b:1\n"

    found, taken = sample_jvm(take, 100, 50, stop)
    assert (asked, taken) == ([20], 20)
    assert sum(found.counted(FULL).values()) == 20


def test_all_samples_that_are_asked_for_are_taken() -> None:
    found, taken = sample_jvm(lambda samples, _: f"{samples}\tBLOCKED\tt\ta.b:1\n", 50, 0, threading.Event())
    assert (taken, found.counted(OFF)) == (50, {("t", "a.b:1"): 50})


def test_ids_and_numbers_in_the_name_of_a_thread_are_left_out() -> None:
    name = "stream execution thread for a [id = 0b8a6a3e-5a9c-4c9e-8b2f-0d7b5c1d2e3f, runId = 12]"
    assert thread_name(name) == "stream execution thread for a [id = #, runId = #]"
    assert thread_name("headgate-http") == "headgate-http"


def test_a_thread_of_this_process_that_computes_is_on_cpu_and_one_that_waits_is_not() -> None:
    done, resting = threading.Event(), threading.Event()

    def compute() -> None:
        while not done.is_set():
            sum(range(20_000))

    def rest() -> None:
        resting.set()
        done.wait()

    threads = [threading.Thread(target=compute, name="computes"), threading.Thread(target=rest, name="rests")]
    helper = threading.Thread(target=rest, name=HELPERS[0])
    for thread in (*threads, helper):
        thread.start()
    assert resting.wait(60)
    try:
        own, found = OwnThreads(), Stacks()
        own.look(Stacks())
        for _ in range(1000):  # Until it has had the processor: others may have it.
            own.look(found)
            if any(stack[0] == "computes" for stack in found.counted(ON)):
                break
            done.wait(0.005)
    finally:
        done.set()
        for thread in (*threads, helper):
            thread.join()
    ran = {stack for stack in found.counted(ON) if stack[0] == "computes"}
    assert ran
    assert all(any("compute" in frame and "test_threads.py" in frame for frame in stack) for stack in ran)
    assert {stack[0] for stack in found.counted(OFF)} >= {"rests"}
    assert not any(stack[0] == "rests" for stack in found.counted(ON))
    assert not any(stack[0] in HELPERS for stack in found.counted(FULL))


def test_a_file_is_named_from_its_package() -> None:
    assert short(threading.__file__) == "threading.py"
    assert short("/nowhere/at/all.py") == "/nowhere/at/all.py"
