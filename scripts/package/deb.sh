#!/bin/sh
# deb.sh BUILD: builds Debian packages in the build folder BUILD from the files built there, and checks them with lintian.
# DEBFULLNAME and DEBEMAIL name the maintainer.
set -eu
cd "$1"
rm -f tpx_*.deb tpx-mpi_*.deb
contact="${DEBFULLNAME-$(id -un)} <${DEBEMAIL-$(id -un)@$(hostname)}>"
cpack -G DEB -D CPACK_PACKAGE_CONTACT="$contact" -D CPACK_DEBIAN_PACKAGE_MAINTAINER="$contact" >cpack.log 2>&1 || { cat cpack.log; exit 1; }
# The suppressed tags are about the address of the caller of this script.
lintian --allow-root --fail-on error --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog,root-in-contact ./*.deb
ls -l ./*.deb
