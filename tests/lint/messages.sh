#!/bin/sh
# messages.sh: the messages in transcripts have no wrong plurals, repeated words or missing values.
python3 -c "import sys; sys.exit(sys.version_info < (3, 9))" 2>/dev/null || { echo "skipped: Python 3.9 or later is missing"; exit 77; }
exec python3 scripts/messages.py --check
