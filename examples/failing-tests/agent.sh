#!/bin/sh
# Stands in for a coding agent, so that this example needs no model. It reads its brief, mends the bug that it sees first,
# and claims to be done. Told that a check is still red, it mends the other one.
brief="$(cat)"
case "$brief" in
*'the discount begins at 10000'*)
    sed -i.old 's/-gt 10000/-ge 10000/' cart.sh
    said='The discount begins at 10000 now'
    ;;
*)
    sed -i.old 's/sum - price/sum + price/' cart.sh
    said='Prices are added now; all tests pass'
    ;;
esac
rm cart.sh.old
printf '{"success": true, "summary": "%s", "artifacts": ["cart.sh"], "reason": null, "too_large": false}\n' "$said"
