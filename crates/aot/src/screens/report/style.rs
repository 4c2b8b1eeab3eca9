//! How a report looks: light and dark, on paper, on a phone. Plain CSS, nothing from elsewhere.

/// Class names differ from those of the graph, whose own style holds for the whole page.
pub const STYLE: &str = "<style>
:root{color-scheme:light dark;--page:#fff;--card:#f6f7f9;--ink:#1d2129;--soft:#5c6470;--line:#dfe3e8;--link:#1f66b4;
--good:#1e7d3c;--good-bg:#e3f5e8;--bad:#b3261e;--bad-bg:#fce8e6;--warn:#8a6100;--warn-bg:#fdf3d6;--live:#1f66b4;--live-bg:#e2effb;
--code:#eef0f3;--add:#e2f6e7;--del:#fde9e7}
@media screen and (prefers-color-scheme:dark){:root{--page:#15181d;--card:#1d2128;--ink:#e6e9ee;--soft:#9aa4b2;--line:#323843;--link:#7ab7f5;
--good:#63cf88;--good-bg:#16301f;--bad:#f28b82;--bad-bg:#3c1c1a;--warn:#e2b93b;--warn-bg:#332a10;--live:#7ab7f5;--live-bg:#132c44;
--code:#252a33;--add:#15301e;--del:#3a1f1d}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;overflow-wrap:anywhere}
main{max-width:68rem;margin:0 auto;padding:2.5rem 1.5rem 4rem}
h1{font-size:1.75rem;line-height:1.25;margin:.2rem 0 1.2rem;letter-spacing:-.01em;text-wrap:balance}
h2{font-size:1.15rem;margin:3rem 0 .9rem;padding-bottom:.4rem;border-bottom:1px solid var(--line)}
h3{font-size:.95rem;margin:1.5rem 0 .5rem}
p{margin:.5rem 0}ul{margin:.4rem 0;padding-left:1.3rem}
.over,.dim{color:var(--soft)}.over{font-size:.9rem;margin:0}.small{font-size:.88rem}
.banner{display:flex;gap:.4rem 1rem;flex-wrap:wrap;align-items:baseline;border-radius:10px;padding:.85rem 1.1rem;background:var(--card)}
.banner b{font-size:1.05rem;letter-spacing:.03em;white-space:nowrap}
.banner.good{background:var(--good-bg)}.banner.good b{color:var(--good)}
.banner.bad{background:var(--bad-bg)}.banner.bad b{color:var(--bad)}
.banner.warn{background:var(--warn-bg)}.banner.warn b{color:var(--warn)}
.banner.live{background:var(--live-bg)}.banner.live b{color:var(--live)}
.figures{display:flex;flex-wrap:wrap;gap:.9rem 1.7rem;margin:1.3rem .1rem 0;padding:0}
.figures dt{color:var(--soft);font-size:.8rem;margin:0}.figures dd{margin:0;font-size:1.2rem;line-height:1.35;font-weight:600;white-space:nowrap;font-variant-numeric:tabular-nums}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}
code.k{white-space:nowrap}code{font-size:.86em;hyphens:none;-webkit-box-decoration-break:clone;box-decoration-break:clone;background:var(--code);border-radius:4px;padding:.1em .35em}
pre{font-size:.8rem;line-height:1.5;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.7rem .9rem;margin:.5rem 0;overflow-x:auto;overflow-wrap:normal;tab-size:4}
@media screen{pre{max-height:28rem;overflow-y:auto}}
.check{border:1px solid var(--line);border-left:4px solid var(--soft);border-radius:8px;padding:.75rem 1rem;margin:.6rem 0}
.check.good{border-left-color:var(--good)}.check.bad{border-left-color:var(--bad)}.check.warn{border-left-color:var(--warn)}
.check header{display:flex;gap:.3rem .7rem;align-items:baseline;flex-wrap:wrap}
.check header strong{flex:1 1 14rem}
.facts{color:var(--soft);font-size:.85rem;display:flex;flex-wrap:wrap;gap:.1rem 1.1rem;margin:.35rem 0 0}
.pill{display:inline-block;font-size:.76rem;font-weight:600;border-radius:99px;padding:.08rem .6rem;background:var(--code);color:var(--soft);white-space:nowrap}
.pill.good{background:var(--good-bg);color:var(--good)}.pill.bad{background:var(--bad-bg);color:var(--bad)}
.pill.warn{background:var(--warn-bg);color:var(--warn)}.pill.live{background:var(--live-bg);color:var(--live)}
.wide{overflow-x:auto;border:1px solid var(--line);border-radius:10px}.wide>svg{display:block}.draw{padding:.5rem}
@media(min-width:601px){.fits>svg{max-width:100%;height:auto;margin:0 auto}}
.gantt .tick{stroke:var(--line);stroke-width:1}.gantt .hour{fill:var(--soft);font-size:11px;text-anchor:middle}
.gantt .who{fill:var(--ink);font-size:12px;text-anchor:end}.gantt .bar{fill:var(--soft)}
.gantt .bar.good{fill:#2f9e57}.gantt .bar.bad{fill:#d5483c}.gantt .bar.live{fill:#2f86d6}.gantt .bar.wait{fill:#c79a1b}.gantt .bar.back{fill:#98a1ad}
.key{display:flex;flex-wrap:wrap;gap:.2rem 1rem;color:var(--soft);font-size:.82rem;margin:.5rem 0 0}
.key i{display:inline-block;width:.75rem;height:.75rem;border-radius:3px;margin-right:.35rem;vertical-align:-.05rem;background:#98a1ad}
.key .good i{background:#2f9e57}.key .bad i{background:#d5483c}.key .live i{background:#2f86d6}.key .wait i{background:#c79a1b}
table{border-collapse:collapse;width:100%;font-size:.88rem}
th,td{text-align:left;vertical-align:top;padding:.5rem .75rem;border-bottom:1px solid var(--line)}
tr:last-child td{border-bottom:0}th{color:var(--soft);font-weight:500;font-size:.8rem;white-space:nowrap}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}td.t{white-space:nowrap}
td .dim{display:block;font-size:.84rem}
details{margin:.5rem 0}summary{cursor:pointer;color:var(--link);font-size:.88rem}
.commit{border:1px solid var(--line);border-radius:8px;padding:.1rem .9rem;margin:.5rem 0}
.commit summary{color:var(--ink);padding:.5rem 0;font-size:.92rem}.plus{color:var(--good)}.minus{color:var(--bad)}
.diff{padding:.5rem 0}.diff span{display:block;padding:0 .9rem;min-width:max-content}
.diff .a{background:var(--add)}.diff .d{background:var(--del)}.diff .h{color:var(--soft);background:var(--code)}.diff .f{font-weight:600;margin-top:.4rem}
footer{margin-top:3.5rem;padding-top:1rem;border-top:1px solid var(--line);color:var(--soft);font-size:.85rem}
@media(max-width:600px){main{padding:1.4rem 1rem 3rem}h1{font-size:1.35rem}h2{margin-top:2.2rem}.figures{gap:.7rem 1.6rem}.figures dd{font-size:1.05rem}
table.stack thead{display:none}table.stack tr{display:block;padding:.55rem .8rem;border-bottom:1px solid var(--line)}table.stack tr:last-child{border:0}
table.stack td{display:block;border:0;padding:.08rem 0;text-align:left;white-space:normal}table.stack td:empty{display:none}
table.stack td.n{display:inline-block;margin-right:1rem}table.stack td[data-name]::before{content:attr(data-name) ' ';color:var(--soft)}}
@media print{main{max-width:none;padding:0}body{font-size:10.5pt}pre{white-space:pre-wrap}.wide{overflow:visible;border:0}.wide>svg{max-width:100%;height:auto}
.check,.commit,tr,.figures div{break-inside:avoid}h2{break-after:avoid}details::details-content{content-visibility:visible;block-size:auto}}
</style>
";
