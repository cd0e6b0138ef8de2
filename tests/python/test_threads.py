"""The interpreter's lock, forks, and exceptions in what the library calls back."""


def test_a_spinning_thread_delays_but_stops_nothing(pair):
    first, second = pair.values("beside_a_spinning_thread")
    assert first == second and first[1] == [2, 2]


def test_forked_processes_leave_connections_alone(pair):
    first, second = pair.values("with_forks")
    assert first == second and first[1] == [7, 7, 7]


def test_an_exception_in_a_callback_reaches_its_caller(pair):
    other, bad = pair.ask("an_exception_in_a_callback")
    assert bad.kinds[0] == "KeyError" and "a callback raised" in str(bad)
    assert other.kinds[0] == "CommError"
