#!/usr/bin/env python3
"""Prints where the time of a test run went: the sum of each test binary, and the slowest tests.

usage: test-times.py PATH_OF_JUNIT_XML
       test-times.py --failures PATH_OF_JUNIT_XML    only the names of failed tests, one per line
"""

import sys
import xml.etree.ElementTree as xml

BINARIES = 8
SLOWEST = 15


def cases(path):
    for suite in xml.parse(path).getroot().iter("testsuite"):
        for case in suite.iter("testcase"):
            failed = any(case.find(kind) is not None for kind in ("failure", "error"))
            yield float(case.get("time", 0)), suite.get("name"), case.get("name"), failed


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--failures":
        for _, binary, name, failed in cases(arguments[1]):
            if failed:
                print(binary, name)
        return 0
    if len(arguments) != 1:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    run = list(cases(arguments[0]))
    sums = {}
    for seconds, binary, _, _ in run:
        sums[binary] = sums.get(binary, 0.0) + seconds
    print(f"test-seconds: {sum(sums.values()):.0f} in {len(run)} tests")
    for binary, seconds in sorted(sums.items(), key=lambda entry: -entry[1])[:BINARIES]:
        print(f"{seconds:8.1f} s  {binary}")
    print("slowest tests:")
    for seconds, binary, name, _ in sorted(run, reverse=True)[:SLOWEST]:
        print(f"{seconds:8.1f} s  {binary} {name}")
    return 0


sys.exit(main(sys.argv[1:]))
