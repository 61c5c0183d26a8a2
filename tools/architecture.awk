# architecture.awk - draws docs/architecture.svg from what includes what; tools/architecture.sh calls it:
#   awk -f architecture.awk lint.awk docs/tour.md FILE...
# Rows are the layers of lint.awk, boxes the folders with their row in the tour's table of folders.
# An arrow says that a folder includes another; those that follow from other arrows are left out.
# Works with mawk and gawk, and gives the same bytes with both.

function escape(text) { gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text); gsub(/`/, "", text); return text }

function folder_of(path) {
    sub(/^src\//, "", path)
    if (path ~ /^(include\/)?hilbert\//) { sub(/.*\//, "", path); return public[path] }
    sub(/\/.*/, "", path)
    return path
}

# Layers and the headers that belong to them: rank["io"] = rank["device"] = 1.
FILENAME ~ /lint\.awk$/ {
    line = $0
    if (line ~ /^ *(rank|public_layer)\[".*=/) {
        value = line
        sub(/.*= */, "", value)
        gsub(/"/, "", value)
        while (match(line, /(rank|public_layer)\["[a-z0-9_.]+"\] *=/)) {
            key = substr(line, RSTART, RLENGTH)
            line = substr(line, RSTART + RLENGTH)
            is_rank = key ~ /^rank/
            gsub(/.*\["|"\].*/, "", key)
            if (!is_rank) public[key] = value
            else if (!(key in rank)) { rank[key] = value + 0; folder[++folders] = key }
        }
    }
    next
}

# | `src/io` | idea |
FILENAME ~ /tour\.md$/ {
    if (split($0, cell, / *\| */) >= 4 && cell[2] ~ /^`src\/[a-z]+`$/) {
        name = cell[2]
        gsub(/`|src\//, "", name)
        if (!(name in idea)) idea[name] = cell[3]
    }
    next
}

FNR == 1 { here = folder_of(FILENAME); if (FILENAME ~ /^include\//) { name = FILENAME; sub(/.*\//, "", name); headers[here] = headers[here] (headers[here] == "" ? "hilbert/ " : " ") name } }
/^#include "/ {
    target = $0
    gsub(/^#include "|".*/, "", target)
    there = folder_of(target)
    if (there != here && (there in rank) && (here in rank)) uses[here, there] = 1
}

# Whether `from` reaches `to` over at least one other folder.
function detour(from, to,    i, via) {
    for (i = 1; i <= folders; ++i) {
        via = folder[i]
        if (via != to && ((from, via) in uses) && (((via, to) in uses) || detour(via, to))) return 1
    }
    return 0
}

function place_boxes(    i, r, n, x) {
    for (i = 1; i <= folders; ++i) { r = rank[folder[i]]; if (r > top) top = r; in_row[r, ++width[r]] = folder[i] }
    for (r = 0; r <= top; ++r) {
        n = width[r]
        x = (page - n * box - (n - 1) * space) / 2
        for (i = 1; i <= n; ++i) left[in_row[r, i]] = x + (i - 1) * (box + space)
    }
}
function row_y(r) { return 16 + (top - r) * (height + between) }

# The x of the gap between the boxes of row r that is nearest to `want`, a lane of its own each time.
function gap_x(r, want,    i, x, best, which, lane) {
    best = -1
    for (i = 0; i <= width[r]; ++i) {
        x = i == 0 ? left[in_row[r, 1]] - space / 2 : left[in_row[r, i]] + box + space / 2
        if (best < 0 || (x - want) * (x - want) < (best - want) * (best - want)) { best = x; which = i }
    }
    lane = lanes[r, which]++
    return best + (lane % 2 ? 1 : -1) * int((lane + 1) / 2) * 5
}

# The way of an arrow through the rows between its ends: x of each gap, and of the neighbours of its ends.
function find_way(a,    from, to, x, goal, r, g, last) {
    from = tail[a]
    to = head[a]
    x = left[from] + box / 2
    goal = left[to] + box / 2
    last = x
    leaves[a] = goal
    for (r = rank[from] - 1; r > rank[to]; --r) {
        g = gap_x(r, x + (goal - x) * (rank[from] - r) / (rank[from] - rank[to]))
        if (r == rank[from] - 1) leaves[a] = g
        way[a] = way[a] sprintf(" L%d %d L%d %d", g, row_y(r) - 4, g, row_y(r) + height + 4)
        last = g
    }
    arrives[a] = last
}

# Arrows leave and arrive in the order of where they lead to, so that fewer cross.
function port(name, a, ends, toward,    i, before, all) {
    for (i = 1; i <= arrows; ++i)
        if (ends[i] == name) {
            ++all
            if (toward[i] < toward[a] || (toward[i] == toward[a] && i < a)) ++before
        }
    return left[name] + box * (before + 1) / (all + 1)
}

function draw_arrow(a,    x, y, goal) {
    x = port(tail[a], a, tail, leaves)
    goal = port(head[a], a, head, arrives)
    y = row_y(rank[tail[a]]) + height
    if (rank[tail[a]] == rank[head[a]])
        way[a] = sprintf(" C%d %d %d %d %d %d", x, y + between - 8, goal, y + between - 8, goal, y + 2)
    else
        way[a] = way[a] sprintf(" L%d %d", goal, row_y(rank[head[a]]) - 2)
    printf "<path class=\"arrow\" d=\"M%d %d%s\"><title>%s includes %s</title></path>\n", x, y, way[a], tail[a], head[a]
}

function draw_text(class, x, y, text) { printf "<text class=\"%s\" x=\"%d\" y=\"%d\">%s</text>\n", class, x, y, escape(text) }

# Words in lines of at most `most` characters; gives the y of the line after them.
function draw_words(class, x, y, words, most,    n, i, word, line) {
    n = split(words, word, " ")
    line = ""
    for (i = 1; i <= n; ++i) {
        if (length(line word[i]) >= most) { draw_text(class, x, y, line); y += 13; line = "" }
        line = line (line == "" ? "" : " ") word[i]
    }
    if (line != "") draw_text(class, x, y, line)
    return y + 15
}

function draw_box(name,    x, y) {
    x = left[name]
    y = row_y(rank[name])
    printf "<rect class=\"box\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", x, y, box, height
    draw_text("name", x + 10, y + 19, name)
    y = draw_words("idea", x + 10, y + 36, idea[name], 32)
    draw_words("header", x + 10, y, headers[name], 36)
}

function draw_arrows(    r, i, k, from, to) {
    for (r = top; r >= 0; --r)
        for (i = 1; i <= width[r]; ++i)
            for (k = 1; k <= folders; ++k) {
                from = in_row[r, i]
                to = folder[k]
                if (!((from, to) in uses) || detour(from, to)) continue
                tail[++arrows] = from
                head[arrows] = to
            }
    for (i = 1; i <= arrows; ++i) find_way(i)
    for (i = 1; i <= arrows; ++i) draw_arrow(i)
}

END {
    if (!folders) { print "architecture.awk: lint.awk names no layers" > "/dev/stderr"; exit 1 }
    box = 218; space = 26; height = 82; between = 34
    for (i = 1; i <= folders; ++i) if (++row_size[rank[folder[i]]] > widest) widest = row_size[rank[folder[i]]]
    page = widest * box + (widest + 1) * space + 40
    place_boxes()
    tall = row_y(0) + height + 40
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n", page, tall, page, tall
    print "<title>The folders of hilbert, and which includes which</title>"
    print "<style>"
    print ".page{fill:#ffffff} .box{fill:#f3f6fa;stroke:#7d8ea3} .arrow{fill:none;stroke:#5b7fb4;stroke-width:1.3;stroke-linejoin:round;marker-end:url(#tip)}"
    print ".tip{fill:#5b7fb4} text{font-family:system-ui,sans-serif;fill:#1f2933} .name{font-size:14px;font-weight:600} .idea,.note{font-size:11.5px} .header{font-size:10px;font-family:ui-monospace,monospace;fill:#52606d}"
    print "@media (prefers-color-scheme:dark){.page{fill:#0d1117} .box{fill:#161b22;stroke:#57677a} .arrow{stroke:#7aa2dd} .tip{fill:#7aa2dd} text{fill:#e6edf3} .header{fill:#9aa7b4}}"
    print "</style>"
    print "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path class=\"tip\" d=\"M0 0L8 4L0 8z\"/></marker></defs>"
    printf "<rect class=\"page\" width=\"%d\" height=\"%d\"/>\n", page, tall
    draw_arrows()
    for (i = 1; i <= folders; ++i) draw_box(folder[i])
    draw_text("note", 20, tall - 14, "An arrow means: includes. Arrows that follow from others are left out; includes point downward only.")
    print "</svg>"
}
