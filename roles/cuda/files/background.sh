# Runs a command behind the tasks that follow, and hands its result to the one that asks for it.
#
#   start DIRECTORY COMMAND...    comes back at once; the command reads this one's standard input
#   wait DIRECTORY                as if the command ran here: its output, its errors, its exit code
#
# DIRECTORY is below /run: a reboot, which ends the command, ends what is known of it. PROVISION_JOB
# tells the one who holds the host for the run what nobody waits for once the run is over.
set -eu
what=$1
directory=$2
shift 2
case $what in
    start)
        mkdir -p "${directory%/*}"
        mkdir -p -m 700 "$directory"
        exec 9>"$directory/lock"
        flock --nonblock 9
        rm -f "$directory/code"
        cat >"$directory/in"
        # The lock goes on to the command, and ends with it however that ends.
        PROVISION_JOB=${PROVISION_RUN-} setsid --fork /bin/sh -c '
            directory=$1
            shift
            code=0
            "$@" <"$directory/in" >"$directory/out" 2>"$directory/err" || code=$?
            echo "$code" >"$directory/code.new"
            mv "$directory/code.new" "$directory/code"
        ' background "$directory" "$@" </dev/null >/dev/null 2>&1
        ;;
    wait)
        exec 9<"$directory/lock"
        flock 9
        if [ ! -e "$directory/code" ]; then
            echo "what was begun behind the tasks before was ended before it was done" >&2
            exit 75
        fi
        cat "$directory/out"
        cat "$directory/err" >&2
        code=$(cat "$directory/code")
        rm -r "$directory"
        exit "$code"
        ;;
esac
