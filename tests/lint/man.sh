#!/bin/sh
# man.sh DIR: mandoc reports nothing about the manual pages in DIR, where the build has put them, and generated text is
# right: "this page" is not a page of another section, and each option is in one line of a synopsis.
set -u
command -v mandoc >/dev/null || { echo "skipped: mandoc is missing"; exit 77; }
[ -d "$1" ] || { echo "skipped: no manual pages in $1"; exit 77; }
status=0
# Both pages refer to the page of the same name in section 5.
for page in tpx-plan.1 tpx-rules.1; do
    [ -f "$1/$page" ] && grep -n "this page" "$1/$page" /dev/null && status=1
done
for option in list release empty; do
    [ -f "$1/tpx-hold.1" ] || continue
    lines=$(sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/p' "$1/tpx-hold.1" | grep -c -e "Fl -$option\>")
    [ "$lines" -eq 1 ] || { echo "tpx-hold.1: --$option is in $lines lines of the synopsis" && status=1; }
done
[ "$status" -eq 0 ] || exit 1
pages=$(find "$1" -name '*.[1-9]')
# shellcheck disable=SC2086 # one word a page
mandoc -Tlint -Wwarning $pages
