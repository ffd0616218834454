#!/bin/sh
<<mark>><<name>>. '<<off>>' takes it away.
here=${0%/*}
chained=<<chained>>
#: Where pre-commit calls ours, it refuses to be called in turn: what is left is what it had found itself.
if [ -n "$PRE_COMMIT_RUNNING_LEGACY" ] && grep -q "<<pre_commit>>" "$chained" 2>/dev/null; then
    chained=$chained.legacy
fi
#? passed on
if [ -f "$chained" ] && [ -x "$chained" ]; then exec "$chained" "$@"; fi
exit 0
#? prepare-commit-msg
#: Git has taken the tree by now: what the hook stages is in no commit yet. Or it has run, in front of an editor.
export TANDEM_TREE=
if [ -z "$TANDEM_COMMIT_PREPARED" ] && [ -f "$chained" ] && [ -x "$chained" ]; then
    index=$here/<<tandem>>/tandem-index-$$
    if cp "$GIT_INDEX_FILE" "$index" 2>/dev/null; then TANDEM_TREE=$(GIT_INDEX_FILE=$index git write-tree --missing-ok); fi
    rm -f "$index"
    "$chained" "$@" || exit $?
fi
#? without input
if [ -f "$chained" ] && [ -x "$chained" ]; then "$chained" "$@" || exit $?; fi
#? of transactions
#: Called twice for each ref that is fetched: what does not concern anybody ends here, and starts nothing.
if [ "$1" != prepared ] && ! [ -x "$chained" ]; then exit 0; fi
end='
'
#: The letter keeps the last line end, which the shell would drop.
IFS= read -r line && input=$line$end || input=
if IFS= read -r line; then input=$input$line$end$(cat; printf x); input=${input%x}; fi
#? free
#: Elsewhere than on a base branch nothing is judged, unless GSD's settings say so.
end='
'
if [ -d <<root>> ] && ! [ -e <<root>>/.planning ] && ! [ -e .planning ]; then
    head=$(git symbolic-ref --quiet HEAD || cat "$(git rev-parse --git-path rebase-merge/head-name)" 2>/dev/null)
    case " $head$end" in <<bases>>) ;; *) exit 0 ;; esac
fi
#? with input
input=$(cat; printf x)
input=${input%x}
#? with any input
#: Both hooks are told the same on standard input.
if [ -f "$chained" ] && [ -x "$chained" ]; then
    printf '%s' "$input" | "$chained" "$@" || exit $?
fi
#? of transactions
#: Has a base branch judged; elsewhere the commit that git made has to have the tree that was judged before it.
[ "$1" = prepared ] || exit 0
tree=
judged=$here/<<tandem>>/<<judged>>/$PPID
#: An empty file is no answer: ours says that the judgement was used.
case $input in *" HEAD$end"*) if [ -e "$judged" ]; then
    read -r tree <"$judged" || tree=nothing
    [ "$tree" = used ] && tree= || printf 'used\n' >"$judged"
fi ;; esac
case $input in <<bases>>) ;; *)
    [ -n "$tree" ] || exit 0
    new=${input%%" HEAD$end"*}
    made=$(GIT_NO_REPLACE_OBJECTS=1 git rev-parse --quiet --verify "${new##* }^{tree}")
    [ "$made" = "$tree" ] && exit 0
    printf '%s\n' 'tandem: refused: This commit is not what the gate has judged: a hook of this repository changed the index meanwhile, such as post-index-change. Look at them, then commit again.' >&2
    exit 1 ;;
esac
#? post-commit
#: Names the hooks that another tool has replaced, such as lefthook in the middle of a commit.
for hook in prepare-commit-msg pre-push; do
    grep -qs "^<<mark>>" "$here/$hook" "$here/$hook.legacy" || printf '%s\n' "tandem: Git does not start the gate's hook $hook: it was replaced. Install it again: tandem gate on" >&2
done
#? recording
[ -e "$here/<<tandem>>/recording" ] || exit 0
#? judging
python=<<python>>
if ! [ -x "$python" ]; then
    printf '%s\n' <<gone>> >&2
    exit <<refusing>>
fi
<<told>>"$python" -I -S -c <<program>> <<name>> "$@"
