#!/bin/sh
# messages.sh: the messages that transcripts show have no wrong plural, no word twice and no value that is missing.
python3 -c "import sys; sys.exit(sys.version_info < (3, 9))" 2>/dev/null || { echo "skipped: no Python 3.9 here"; exit 77; }
exec python3 scripts/messages.py --check
