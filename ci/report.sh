#!/usr/bin/env bash
# Opens a page of `mad report` in a real browser without a screen, narrow and wide, light and dark: no message on its console,
# and a picture of each for people to look at. ci/report.sh report.html [FOLDER FOR PICTURES]
set -euo pipefail

page="$(realpath "$1")"
folder="${2:-$(mktemp -d)}"
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
for width in 400 1400; do
    for scheme in 0 1; do # dark, light
        log="$folder/$width-$scheme.log"
        timeout 60 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --enable-logging=stderr --v=0 \
            --blink-settings=preferredColorScheme=$scheme --window-size=$width,3000 \
            --screenshot="$folder/$width-$scheme.png" "file://$page" 2>"$log"
        if grep -i 'CONSOLE' "$log"; then
            echo "the page says this on the console ($width pixels)"
            exit 1
        fi
        [ -s "$folder/$width-$scheme.png" ] || { echo "no picture at $width pixels"; exit 1; }
    done
done
echo "no message on the console; pictures are in $folder"
