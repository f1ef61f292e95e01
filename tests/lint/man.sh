#!/bin/sh
# man.sh DIR: mandoc finds no fault in the manual pages in DIR, where the build has put them.
set -u
command -v mandoc >/dev/null || { echo "skipped: mandoc is missing"; exit 77; }
[ -d "$1" ] || { echo "skipped: no manual pages in $1"; exit 77; }
pages=$(find "$1" -name '*.[1-9]')
# shellcheck disable=SC2086 # one word a page
mandoc -Tlint -Wwarning $pages
