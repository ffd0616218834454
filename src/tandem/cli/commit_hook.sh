#!/bin/sh
# Of 'tandem commit': stands for each hook of a repository while one git commit runs, and calls that hook.
name=${0##*/}
hook=$TANDEM_COMMIT_HOOKS/$name
folder=$TANDEM_COMMIT_FOLDER
# The hooks, and the git that they run, see the configuration as it is without this.
if [ -n "$TANDEM_COMMIT_PARAMETERS" ]; then
    export GIT_CONFIG_PARAMETERS="$TANDEM_COMMIT_PARAMETERS"
else
    unset GIT_CONFIG_PARAMETERS
fi
# The locks that the git which runs this holds now, so that only those are removed if it is killed.
own() { ln -f "$@" "$folder/own/" 2>/dev/null || :; }
own_index() { case $GIT_INDEX_FILE in *.lock) own "$TANDEM_COMMIT_GIT/index.lock" ;; esac; }
# Whether a file is the gate's.
is_gate() { grep -qs "^# Tandem's gate: " "$1"; }
# The index may be locked by the git that runs this.
tree() {
    if [ -f "$GIT_INDEX_FILE" ]; then cp "$GIT_INDEX_FILE" "$folder/index" || return 1; else rm -f "$folder/index"; fi
    GIT_INDEX_FILE=$folder/index git write-tree --missing-ok
}
case $TANDEM_COMMIT_STEP:$name in
take:prepare-commit-msg) ;;
*) exec 8<&- 9>&- ;;
esac
case $TANDEM_COMMIT_STEP:$name in
take:pre-commit)
    own_index
    # Git's exit status is the same where there is nothing to commit.
    if [ -f "$hook" ] && [ -x "$hook" ]; then "$hook" "$@" || { : >"$folder/refused"; exit 1; }; fi
    exit 0
    ;;
take:prepare-commit-msg)
    # Behind pre-commit, in front of the editor: here is what would be committed. Git waits, and goes on if it may; else
    # it ends without a commit, also where the one who was asked ends.
    own_index
    if [ -n "$TANDEM_COMMIT_ASKS" ]; then
        printf '%s\0' "$1" "$GIT_INDEX_FILE" "$2" "$3" >&9
        read -r answer <&8 || exit 1
        exec 8<&- 9>&-
        if [ -f "$hook" ] && [ -x "$hook" ]; then exec "$hook" "$@"; fi
        exit 0
    fi
    exec 8<&- 9>&-
    cp "$1" "$folder/message" && tree >"$folder/tree" || exit 1
    printf '%s\n' "${GIT_INDEX_FILE##*/}" "$2" "$3" >"$folder/source"
    case $TANDEM_COMMIT_EDITS:$2 in 1: | 1:template) ;; *) exit 1 ;; esac
    # The repository's own hook runs once, in front of the editor; the gate's judges the commit that is made.
    if is_gate "$hook"; then
        here=${hook%/*}
        eval "$(grep '^chained=' "$hook")"
        hook=$chained
    elif is_gate "$hook.legacy"; then
        exit 0
    fi
    : >"$folder/prepared"
    # What it stages is not committed.
    if [ -f "$folder/index" ]; then export GIT_INDEX_FILE="$folder/index"; fi
    ;;
take:commit-msg)
    if [ -n "$TANDEM_COMMIT_EDITS" ]; then cp "$1" "$folder/message"; exit 1; fi
    ;;
make:pre-commit)
    own_index
    # It has run. What -a or paths take from the files now may be something else.
    case $GIT_INDEX_FILE in
    *.lock) [ "$(tree)" = "$TANDEM_COMMIT_TREE" ] || git read-tree -m "$TANDEM_COMMIT_TREE" ;;
    esac
    exit 0
    ;;
make:prepare-commit-msg)
    own_index
    if [ "$(tree)" != "$TANDEM_COMMIT_TREE" ]; then
        printf '%s\n' 'tandem: refused: What is staged has changed meanwhile. Run tandem commit again.' >&2
        exit 1
    fi
    # The gate's own knows that, too.
    if [ -n "$TANDEM_COMMIT_PREPARED" ] && ! is_gate "$hook"; then exit 0; fi
    ;;
*:reference-transaction)
    # Later ones are those of other programs that git starts.
    if [ "$1" = prepared ] && ! [ -e "$folder/own/HEAD.lock" ]; then
        read -r _ ref <"$TANDEM_COMMIT_GIT/HEAD"
        own "$TANDEM_COMMIT_GIT/HEAD.lock" ${ref:+"$TANDEM_COMMIT_COMMON/$ref.lock"}
    fi
    ;;
esac
if [ -f "$hook" ] && [ -x "$hook" ]; then exec "$hook" "$@"; fi
exit 0
