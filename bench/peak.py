# SPDX-License-Identifier: Apache-2.0
"""peak.py FILE COMMAND...: runs COMMAND and appends a line with its peak resident memory in KiB to FILE."""
import os
import sys

child = os.fork()
if child == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(child, 0)
with open(sys.argv[1], "a") as file:
    file.write(f"{usage.ru_maxrss}\n")
sys.exit(os.waitstatus_to_exitcode(status))
