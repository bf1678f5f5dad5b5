"""Many quick cases of one law as a single test."""

import functools
import inspect
import traceback

import pytest


def each(argument, cases):
    """Parametrize within one test, and report every case that fails with its error.

    A test of its own costs two milliseconds.

    Args:
        argument: name of the argument, or several names separated by commas.
        cases: dict of cases by name, or list of cases that are their own names.
    """
    named = list(cases.items() if isinstance(cases, dict) else ((case, case) for case in cases))
    arguments = argument.split(", ")

    def wrap(test):
        own = inspect.signature(test)

        @functools.wraps(test)
        def every_case(**fixtures):
            failed, skipped = [], []
            for name, case in named:
                given = {argument: case} if len(arguments) == 1 else dict(zip(arguments, case, strict=True))
                try:
                    test(**fixtures, **given)
                except pytest.skip.Exception as reason:
                    skipped.append(str(reason))
                except (Exception, SystemExit, pytest.fail.Exception):
                    failed.append(f"[{name}] {traceback.format_exc()}")
            if failed:
                pytest.fail(f"{len(failed)} of {len(named)} cases:\n" + "\n".join(failed), pytrace=False)
            if len(skipped) == len(named):
                pytest.skip(skipped[0] if skipped else "no case")

        left = [x for name, x in own.parameters.items() if name not in arguments]
        every_case.__signature__ = own.replace(parameters=left)
        return every_case

    return wrap
