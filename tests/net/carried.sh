#!/bin/sh
# carried.sh, to be sourced on four emulated hosts.
# carried FILE: writes a line for each host: its name, and the bytes that its interface has sent and received.
cat >count.sh <<'COUNT'
cd /sys/class/net/eth0/statistics && echo "$(hostname) $(cat tx_bytes) $(cat rx_bytes)"
COUNT
carried() {
    mpirun-hosts -n 4 sh "$PWD/count.sh" | sort >"$1"
    [ "$(wc -l <"$1")" -eq 4 ] || exit 1
}
