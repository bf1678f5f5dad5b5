"""Many cases in one test: all of them run, and each failure is named."""

import pytest

from tests.support.each import each


@each("x, y", {"one": (1, 1), "two": (2, 3), "three": (3, 0)})
def law(x, y, fixture):
    assert x == y + fixture


def test_every_case_that_fails_is_named():
    with pytest.raises(pytest.fail.Exception, match=r"(?s)2 of 3 cases:\n\[two\] .*\[three\] .*assert 3 == \(0 \+ 0\)"):
        law(fixture=0)


@each("status", [0, 2])
def commands(status):
    raise SystemExit(status)


def test_a_command_that_ends_the_process_is_a_failure_of_its_case():
    with pytest.raises(pytest.fail.Exception, match=r"(?s)2 of 2 cases:\n\[0\] .*\[2\] .*SystemExit: 2"):
        commands()


@each("case", [1, 2])
def run_case(case, skipped):
    if case in skipped:
        pytest.skip("for a reason")


def test_skipped_cases_are_no_failures():
    run_case(skipped=[1])
    with pytest.raises(pytest.skip.Exception, match="for a reason"):
        run_case(skipped=[1, 2])


@each("number", range(3))
@pytest.mark.parametrize("more", [0, 5])
def test_fixtures_and_parameters_are_passed(number, more, generator):
    assert number + more < 8
    assert generator
