#!/bin/sh
# Stands in for an agent that judges, so that this example needs no model. It gets one JSON object on standard input and
# answers with a score from 1 to 5 for each criterion, a reason, and a place that shows it.
cat > /dev/null
complete=5 useful=5
for verb in copy count; do
    grep -q "^## $verb" docs/manual.md || complete=2
    grep -q "^    sh tool.sh $verb" docs/manual.md || useful=2
done
cat << END
{"scores": [
  {"criterion": "Complete", "score": $complete, "reason": "verbs with a section", "evidence": ["docs/manual.md:1"]},
  {"criterion": "Useful", "score": $useful, "reason": "verbs with an example", "evidence": ["docs/manual.md:3"]}
]}
END
