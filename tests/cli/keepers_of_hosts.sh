# shellcheck shell=bash disable=SC2154
# Sourced after holding.sh by tests of keepers on several hosts: each process of mpirun that starts as-host is a host with
# keepers of its own. Host K has its sockets in RUN/K. It can have a script RUN/K.sh, through which it starts the command.
export RUN=$scratch/run
mkdir -m 700 "$RUN/0" "$RUN/1" "$RUN/2" || exit 1
cat >as-host <<'END'
#!/bin/sh
host=$OMPI_COMM_WORLD_RANK
export XDG_RUNTIME_DIR=$RUN/$host
[ ! -e "$RUN/$host.sh" ] || exec sh "$RUN/$host.sh" "$@"
exec "$@"
END
chmod +x as-host
on() { XDG_RUNTIME_DIR=$RUN/$1 "${@:2}"; }
release() {
    local host pid
    for host in . 0 1 2; do
        for pid in $(on $host pids); do kill "$pid" && goes "/proc/$pid/cwd"; done
    done
}
trap 'release; end' EXIT
# bytes HOST NAME RANKS: the digests of the documents and segments of RANKS, such as "0 1".
# shellcheck disable=SC2086 # several ranks
bytes() { on "$1" client bytes "$2" $3; }
