#!/bin/sh
# Only lib/core/path.hpp checks whether files exist, because it does not treat errors as absence. remove.cpp checks all
# errors itself.
set -u
! grep -rnE --exclude=remove.cpp '(fs|filesystem)::(exists|is_[a-z]|(symlink_)?status\b|(recursive_)?directory_iterator|file_size|(weakly_)?canonical|create_dir)' \
    lib formats cmd
