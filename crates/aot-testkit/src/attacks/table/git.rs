//! Git that the attacker configures, and git's own files.

use super::super::Door::{BaseCase, Check, InPlace, OutsideGit, Unisolated, Work};
use super::Attack;
use super::Bare::Prevented;

pub(super) const ATTACKS: &[Attack] = &[
    // The `.git` of the worktree is replaced by a repository of the worker's own.
    Attack::new(Work, "own repository with a clean filter", "rm -rf .git; git init -q .; git config filter.x.clean 'touch @PROOF@; cat'; echo '* filter=x' > .gitattributes; echo x > file-@N@", Prevented),
    Attack::new(Work, "own repository with a process filter", "rm -rf .git; git init -q .; git config filter.x.process 'touch @PROOF@'; git config filter.x.required true; echo '* filter=x' > .gitattributes", Prevented),
    Attack::new(Work, "own repository with a smudge filter", "rm -rf .git; git init -q .; git config filter.x.smudge 'touch @PROOF@; cat'; echo '* filter=x' > .gitattributes", Prevented),
    Attack::new(Work, "own repository with an fsmonitor", "rm -rf .git; git init -q .; git config core.fsmonitor 'touch @PROOF@; false'", Prevented),
    Attack::new(Work, "own repository with hooks", "rm -rf .git; git init -q .; for h in pre-commit post-commit post-checkout post-index-change reference-transaction post-merge; do printf '#!/bin/sh\\ntouch @PROOF@\\n' > .git/hooks/$h; chmod +x .git/hooks/$h; done", Prevented),
    Attack::new(Work, "own repository whose hooks lie in the tree", "rm -rf .git; git init -q .; mkdir hooks-@N@; printf '#!/bin/sh\\ntouch @PROOF@\\n' > hooks-@N@/post-index-change; chmod +x hooks-@N@/*; git config core.hooksPath $PWD/hooks-@N@", Prevented),
    Attack::new(Work, "own repository that includes a file of the tree", "rm -rf .git; git init -q .; printf '[core]\\nfsmonitor = touch @PROOF@\\n' > cfg-@N@; git config include.path $PWD/cfg-@N@", Prevented),
    Attack::new(Work, "own repository with a textconv", "rm -rf .git; git init -q .; git config diff.x.textconv 'touch @PROOF@; cat'; echo '* diff=x' > .gitattributes; echo y > README", Prevented),
    Attack::new(Work, "own repository with an external diff", "rm -rf .git; git init -q .; git config diff.external 'touch @PROOF@'; echo z >> README", Prevented),
    Attack::new(Work, "own repository with a merge driver", "rm -rf .git; git init -q .; git config merge.x.driver 'touch @PROOF@; true'; git config merge.default x; echo '* merge=x' > .gitattributes", Prevented),
    Attack::new(Work, "own repository with every program of core", "rm -rf .git; git init -q .; for k in editor pager sshCommand askPass gitProxy alternateRefsCommand; do git config core.$k 'touch @PROOF@;'; done; git config credential.helper '!touch @PROOF@'; git config gpg.program 'touch @PROOF@'; git config commit.gpgsign true; git config alias.status '!touch @PROOF@'", Prevented),
    Attack::new(Work, "`.git` leads to a repository in the tree", "git init -q evil-@N@; git -C evil-@N@ config core.fsmonitor 'touch @PROOF@; false'; git -C evil-@N@ config core.worktree $PWD; rm -rf .git; echo \"gitdir: $PWD/evil-@N@/.git\" > .git", Prevented),
    Attack::new(Work, "`.git` is a link to a repository in the tree", "git init -q evil-@N@; git -C evil-@N@ config core.fsmonitor 'touch @PROOF@; false'; rm -rf .git; ln -s evil-@N@/.git .git", Prevented),
    Attack::new(Work, "`.git` leads to a worktree with a common dir of its own", "git init -q evil-@N@; git -C evil-@N@ config core.fsmonitor 'touch @PROOF@; false'; mkdir wt-@N@; echo 'ref: refs/heads/main' > wt-@N@/HEAD; echo \"$PWD/evil-@N@/.git\" > wt-@N@/commondir; echo \"$PWD/.git\" > wt-@N@/gitdir; rm -rf .git; echo \"gitdir: $PWD/wt-@N@\" > .git", Prevented),
    Attack::new(Work, "`.git` is gone", "rm -rf .git; echo x > file-@N@", Prevented),
    Attack::new(Work, "`.git` is a FIFO", "rm -rf .git; mkfifo .git; echo x > file-@N@", Prevented),
    // The repository's own files.
    Attack::new(Work, "the repository's configuration", "printf '[core]\\nfsmonitor = touch @PROOF@\\n' >> @ROOT@/.git/config; git -C @ROOT@ config core.fsmonitor 'touch @PROOF@'; git config core.fsmonitor 'touch @PROOF@'", Prevented),
    Attack::new(Work, "a hook of the repository", "printf '#!/bin/sh\\ntouch @PROOF@\\n' > @ROOT@/.git/hooks/post-index-change; chmod +x @ROOT@/.git/hooks/post-index-change", Prevented),
    Attack::new(Work, "the worktree's own folder in the repository", "d=$(sed 's/gitdir: //' .git); git config extensions.worktreeConfig true; printf '[core]\\nfsmonitor = touch @PROOF@\\n' > $d/config.worktree; echo @ROOT@/evil > $d/commondir; mkdir -p $d/info; echo '* filter=x' > $d/info/attributes", Prevented),
    Attack::new(Work, "the index of the worktree is a link out", "d=$(sed 's/gitdir: //' .git); rm -f $d/index; ln -s @VICTIM@ $d/index; rm -f $d/index.lock; ln -s @VICTIM@ $d/index.lock", Prevented),
    Attack::new(Work, "a branch of the repository", "git update-ref refs/heads/never-@N@ HEAD; echo 0000 > @ROOT@/.git/refs/heads/main; printf 'x' > @ROOT@/.git/HEAD; git -C @ROOT@ rev-parse -q --verify main > /dev/null || touch broken-@N@", Prevented),
    // What lies in the tree and lands.
    Attack::new(Work, "a nested repository with an fsmonitor", "git init -q nested-@N@; git -C nested-@N@ -c user.name=a -c user.email=b commit -q --allow-empty -m x; git -C nested-@N@ config core.fsmonitor 'touch @PROOF@; false'", Prevented),
    Attack::new(Work, "a submodule with a command", "git init -q sub-@N@; git -C sub-@N@ -c user.name=a -c user.email=b commit -q --allow-empty -m x; git -C sub-@N@ config core.fsmonitor 'touch @PROOF@'; printf '[submodule \"x\"]\\n path = sub-@N@\\n url = ./sub-@N@\\n update = !touch @PROOF@\\n' > .gitmodules; git add .gitmodules sub-@N@ 2> /dev/null", Prevented).alone(),
    Attack::new(Work, "attributes that name a filter of the user with a program in the tree", "mkdir -p tools-@N@; printf '#!/bin/sh\\ntouch @PROOF@; cat\\n' > tools-@N@/clean; chmod +x tools-@N@/clean; echo '* filter=own' > .gitattributes", Prevented)
        .before("printf '[filter \"own\"]\\n\\tclean = ./tools-@N@/clean\\n\\tsmudge = ./tools-@N@/clean\\n' > @HOME@/.gitconfig").alone(),
    Attack::new(Work, "a folder that looks like git's", "mkdir -p .Git '.git ' GIT~1; for d in .Git '.git ' GIT~1; do printf '[core]\\nfsmonitor = touch @PROOF@\\n' > \"$d/config\"; done", Prevented),
    Attack::new(Work, "a link in the tree becomes a folder when it lands", "rm out-@N@; mkdir out-@N@; echo evil > out-@N@/file; echo evil > out-@N@/new", Prevented)
        .before("ln -s @FOLDER@ out-@N@"),
    Attack::new(Work, "a file in the tree becomes a link when it lands", "rm -f file-@N@; ln -s @VICTIM@ file-@N@", Prevented)
        .before("echo x > file-@N@"),
    Attack::new(Work, "a folder of tests becomes a link", "rm -rf tests; ln -s @FOLDER@ tests", Prevented).says("tests/").alone(),
    // In place, without isolation, and outside of git.
    Attack::new(InPlace, "in place: the configuration", "printf '[core]\\nfsmonitor = touch @PROOF@\\n' >> .git/config", Prevented),
    Attack::new(InPlace, "in place: a repository of its own", "mv .git away-@N@; git init -q .; git config core.fsmonitor 'touch @PROOF@; false'; git config filter.x.clean 'touch @PROOF@; cat'; echo '* filter=x' > .gitattributes", Prevented),
    Attack::new(InPlace, "in place: hooks", "for h in post-commit post-checkout post-index-change reference-transaction; do printf '#!/bin/sh\\ntouch @PROOF@\\n' > .git/hooks/$h; chmod +x .git/hooks/$h; done", Prevented),
    Attack::new(InPlace, "in place: the shadow repository", "d=.claude/aot/shadow.git; printf '[core]\\nfsmonitor = touch @PROOF@\\n' >> $d/config; printf '#!/bin/sh\\ntouch @PROOF@\\n' > $d/hooks/post-index-change; chmod +x $d/hooks/post-index-change", Prevented),
    Attack::new(Unisolated, "without isolation: the configuration", "printf '[core]\\nfsmonitor = touch @PROOF@\\n' >> .git/config", Prevented),
    Attack::new(Unisolated, "without isolation: a repository of its own", "mv .git away-@N@; git init -q .; git config core.fsmonitor 'touch @PROOF@; false'; git config filter.x.clean 'touch @PROOF@; cat'; echo '* filter=x' > .gitattributes", Prevented),
    Attack::new(Unisolated, "without isolation: hooks", "for h in post-commit post-checkout post-index-change reference-transaction; do printf '#!/bin/sh\\ntouch @PROOF@\\n' > .git/hooks/$h; chmod +x .git/hooks/$h; done", Prevented),
    Attack::new(OutsideGit, "outside of git: a repository of its own", "git init -q .; git config core.fsmonitor 'touch @PROOF@; false'; git config filter.x.clean 'touch @PROOF@; cat'; echo '* filter=x' > .gitattributes", Prevented),
    Attack::new(OutsideGit, "outside of git: a repository of its own with hooks", "git init -q .; for h in post-commit post-checkout post-index-change reference-transaction; do printf '#!/bin/sh\\ntouch @PROOF@\\n' > .git/hooks/$h; chmod +x .git/hooks/$h; done", Prevented),
    Attack::new(OutsideGit, "outside of git: the shadow repository", "d=.claude/aot/shadow.git; printf '[core]\\nfsmonitor = touch @PROOF@\\n' >> $d/config; printf '#!/bin/sh\\ntouch @PROOF@\\n' > $d/hooks/post-index-change; chmod +x $d/hooks/post-index-change", Prevented),
    Attack::new(OutsideGit, "outside of git: `.git` leads to a repository of its own", "git init -q evil-@N@; git -C evil-@N@ config core.fsmonitor 'touch @PROOF@; false'; echo \"gitdir: $PWD/evil-@N@/.git\" > .git", Prevented),
    // Checks run git too.
    Attack::new(Check, "the configuration, from an atom's check", "git config core.fsmonitor 'touch @PROOF@'; printf '[core]\\nfsmonitor = touch @PROOF@\\n' >> @ROOT@/.git/config", Prevented),
    Attack::new(Check, "own repository, from an atom's check", "rm -rf .git; git init -q .; git config core.fsmonitor 'touch @PROOF@; false'; git config filter.x.clean 'touch @PROOF@; cat'; echo '* filter=x' > .gitattributes", Prevented),
    Attack::new(BaseCase, "the configuration, from the base case", "git config core.fsmonitor 'touch @PROOF@'; printf '[core]\\nfsmonitor = touch @PROOF@\\n' >> .git/config", Prevented),
    Attack::new(BaseCase, "hooks, from the base case", "for h in post-commit post-checkout post-index-change; do printf '#!/bin/sh\\ntouch @PROOF@\\n' > .git/hooks/$h; chmod +x .git/hooks/$h; done", Prevented),
];
