#!/bin/sh
# messages.sh: messages and results in transcripts have no wrong plural; messages have no repeated word and no missing value.
python3 -c "import sys; sys.exit(sys.version_info < (3, 9))" 2>/dev/null || { echo "skipped: Python 3.9 or later is missing"; exit 77; }
exec python3 scripts/messages.py --check
