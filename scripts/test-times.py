#!/usr/bin/env python3
"""Prints where the time of a test run went: the sum of each test binary, and the slowest tests.

usage: test-times.py PATH_OF_JUNIT_XML
"""

import sys
import xml.etree.ElementTree as xml

SLOWEST = 15

cases = [
    (float(case.get("time")), suite.get("name"), case.get("name"))
    for suite in xml.parse(sys.argv[1]).getroot().iter("testsuite")
    for case in suite.iter("testcase")
]
sums = {}
for seconds, binary, _ in cases:
    sums[binary] = sums.get(binary, 0.0) + seconds
print(f"test-seconds: {sum(sums.values()):.0f} in {len(cases)} tests")
for binary, seconds in sorted(sums.items(), key=lambda entry: -entry[1])[:8]:
    print(f"{seconds:8.1f} s  {binary}")
for seconds, binary, name in sorted(cases, reverse=True)[:SLOWEST]:
    print(f"{seconds:8.1f} s  {binary} {name}")
