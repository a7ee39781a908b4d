#!/usr/bin/env bash
# Opens a page of `mad report` in a real browser without a screen, narrow and wide, light and dark: no message on its console,
# what ci/report-checks.js checks, and a picture of each for people to look at. ci/report.sh report.html [FOLDER FOR PICTURES]
set -euo pipefail

page="$(realpath "$1")"
checks="$(dirname "$(realpath "$0")")/report-checks.js"
folder="${2:-$(mktemp -d)}"
mkdir -p "$folder"
find_browser() { command -v chromium || command -v chromium-browser || command -v google-chrome || true; }
browser="$(find_browser)"
if [ -z "$browser" ] && [ "${CI:-}" = true ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install -y -qq --no-install-recommends \
        chromium fonts-dejavu-core >/dev/null || true
    browser="$(find_browser)"
fi
if [ -z "$browser" ]; then
    echo "SKIPPED: there is no chromium (apt-get install chromium)"
    exit 0
fi
checked="$folder/checked.html"
{ cat "$page"; echo "<script>"; cat "$checks"; echo "</script>"; } >"$checked"
for width in 400 1400; do
    for scheme in 0 1; do # dark, light
        name="$folder/$width-$scheme"
        open() {
            timeout 60 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --enable-logging=stderr --v=0 \
                --blink-settings=preferredColorScheme=$scheme --window-size=$width,3000 "$@"
        }
        open --screenshot="$name.png" "file://$page" 2>"$name.log"
        open --dump-dom "file://$checked" >"$name.dom" 2>>"$name.log"
        if grep -i 'CONSOLE' "$name.log"; then
            echo "the page says this on the console ($width pixels)"
            exit 1
        fi
        [ -s "$name.png" ] || { echo "no picture at $width pixels"; exit 1; }
        found="$(grep -o -m1 'data-wrong="[^"]*"' "$name.dom" || true)"
        if [ "$found" != 'data-wrong="[]"' ]; then
            echo "at $width pixels, scheme $scheme: ${found:-the checks did not run}" | sed 's/&quot;,&quot;/\n  /g; s/&quot;/"/g'
            exit 1
        fi
    done
done
echo "no message on the console, every check holds; pictures are in $folder"
