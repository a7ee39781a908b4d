"""What came of a run of mpi4py's tests: mpi4py-summary.py PROCESSES STATUS SECONDS LOG..., a log of each process.

Fails if a test failed, a process did not come to its end, or the run as a whole has another status than 0.
"""

import re
import sys

processes, status, seconds, *logs = sys.argv[1:]
good = status == "0" and len(logs) == int(processes)
counts = set()
for log in logs:
    lines = open(log, errors="replace").read().splitlines()
    ran = [re.fullmatch(r"Ran (\d+) tests? in .*", line) for line in lines]
    ran = [int(found[1]) for found in ran if found]
    ends = [line for line in lines if re.match(r"(OK|FAILED)\b", line)]
    if len(ran) != 1 or len(ends) != 1:
        good = False
        print(f"{log}: not at its end; the last lines:", *lines[-12:], sep="\n    ")
        continue
    told = {name: int(number) for name, number in re.findall(r"([a-z ]+)=(\d+)", ends[0])}
    skipped = told.get("skipped", 0)
    wrong = told.get("failures", 0) + told.get("errors", 0) + told.get("unexpected successes", 0)
    counts.add((ran[0] - skipped - wrong, skipped, wrong))
    if wrong:
        good = False
        start = next(index for index, line in enumerate(lines) if line.startswith("====="))
        print(f"{log}:", *lines[start : start + 80], sep="\n    ")
if len(counts) > 1:
    print("processes differ in what they count:", sorted(counts))
for passed, skipped, wrong in sorted(counts):
    print(f"mpi4py, {processes} processes: {passed} passed, {skipped} skipped, {wrong} failed, {seconds} s")
if status == "124":
    print(f"mpi4py, {processes} processes: no test begins any more: the last lines say in which it hangs")
sys.exit(not good)
