/* pattern_parse.c - the text of an expression to a tree. */
#include "text/pattern/pattern_tree.h"

#include <string.h>
#include <strings.h>

/* NODES_MAX bounds the depth of the tree; REPEAT_MAX is the largest count in braces. */
enum { NODES_MAX = 2000, REPEAT_MAX = 1000 };

hil_status hil_pattern_tree_add_set(hil_pattern_tree *tree, hil_pattern_set set, int *out)
{
    HIL_TRY(HIL_GROW(&tree->sets, &tree->set_capacity, tree->set_count + 1));
    *out = (int)tree->set_count;
    tree->sets[tree->set_count++] = set;
    return HIL_OK;
}

hil_status hil_pattern_tree_add_node(hil_pattern_tree *tree, hil_pattern_node node, int *out)
{
    HIL_TRY(HIL_GROW(&tree->nodes, &tree->node_capacity, tree->node_count + 1));
    *out = (int)tree->node_count;
    tree->nodes[tree->node_count++] = node;
    return HIL_OK;
}

void hil_pattern_tree_free(hil_pattern_tree *tree)
{
    hil_free(tree->items);
    hil_free(tree->sets);
    hil_free(tree->nodes);
    *tree = (hil_pattern_tree){0};
}

static hil_status read_either(hil_pattern_reader *reader, int *out);

/* Ends the set that is being read. */
static hil_status take_set(hil_pattern_reader *reader, bool negated, int *set)
{
    hil_pattern_set taken = {.items = reader->items, .negated = negated, .also = -1};
    reader->items = -1;
    return hil_pattern_tree_add_set(reader->tree, taken, set);
}

/* The set of an expression that is a single character of a set, or a choice of such; -1: it is not.
 */
static hil_status set_of(hil_pattern_reader *reader, int node, int *set)
{
    const hil_pattern_node n = reader->tree->nodes[node];
    int left, right;
    *set = n.kind == HIL_NODE_SET ? n.set : -1;
    if (n.kind != HIL_NODE_EITHER) return HIL_OK;
    HIL_TRY(set_of(reader, n.left, &left));
    HIL_TRY(set_of(reader, n.right, &right));
    if (left < 0 || right < 0) return HIL_OK;
    reader->items = -1;
    for (int i = 0; i < 2; ++i)
        HIL_TRY(hil_pattern_read_add(
            reader,
            (hil_pattern_item){.kind = HIL_ITEM_SET, .first = (uint32_t)(i ? right : left)}));
    return take_set(reader, false, set);
}

static hil_status read_ahead(hil_pattern_reader *reader, bool wanted, int *out)
{
    int node, set = -1;
    HIL_TRY(read_either(reader, &node));
    if (reader->reason) return HIL_OK;
    HIL_TRY(set_of(reader, node, &set));
    if (set < 0) {
        reader->reason = "a lookahead of more than one character";
        return HIL_OK;
    }
    hil_pattern_node ahead = {
        .kind = HIL_NODE_AHEAD, .set = set, .wanted = wanted, .at_end = !wanted};
    return hil_pattern_tree_add_node(reader->tree, ahead, out);
}

static bool skips(hil_pattern_reader *reader, const char *text)
{
    size_t size = strlen(text);
    if (strncmp(reader->at, text, size) != 0) return false;
    reader->at += size;
    return true;
}

/* A group after its '('. */
static hil_status read_group(hil_pattern_reader *reader, int *out)
{
    bool fold = reader->fold;
    if (++reader->depth > HIL_PATTERN_DEPTH) reader->reason = "too many nested groups";
    if (reader->reason) return HIL_OK;
    if (skips(reader, "?!") || skips(reader, "?=")) {
        HIL_TRY(read_ahead(reader, reader->at[-1] == '=', out));
    } else {
        if (skips(reader, "?i:"))
            reader->fold = true;
        else if (skips(reader, "?-i:"))
            reader->fold = false;
        else if (!skips(reader, "?:") && *reader->at == '?')
            reader->reason = "a group other than (...), (?:...), (?i:...), (?=...) and (?!...)";
        if (!reader->reason) HIL_TRY(read_either(reader, out));
    }
    if (!reader->reason && *reader->at++ != ')') reader->reason = "a group without its )";
    reader->fold = fold;
    --reader->depth;
    return HIL_OK;
}

static hil_status add_set_node(hil_pattern_reader *reader, int set, int *out)
{
    return hil_pattern_tree_add_node(reader->tree,
                                     (hil_pattern_node){.kind = HIL_NODE_SET, .set = set}, out);
}

/* $ stands before a line feed, too, as in Ruby. */
static hil_status read_end(hil_pattern_reader *reader, bool lines, int *out)
{
    int set;
    if (lines)
        HIL_TRY(hil_pattern_read_add(
            reader, (hil_pattern_item){.kind = HIL_ITEM_RANGE, .first = '\n', .last = '\n'}));
    HIL_TRY(take_set(reader, false, &set));
    hil_pattern_node ahead = {.kind = HIL_NODE_AHEAD, .set = set, .wanted = true, .at_end = true};
    return hil_pattern_tree_add_node(reader->tree, ahead, out);
}

/* A character, a class or a group. */
static hil_status read_atom(hil_pattern_reader *reader, int *out)
{
    size_t step;
    int set;
    bool is_item = false, negated = false;
    uint32_t point = hil_utf8_get(reader->at, &step);
    reader->at += step;
    if (point == '(') return read_group(reader, out);
    if (point == '$' || (point == '\\' && skips(reader, "z")))
        return read_end(reader, point == '$', out);
    if (point == '[') {
        HIL_TRY(hil_pattern_read_class(reader, &set));
        return reader->reason ? HIL_OK : add_set_node(reader, set, out);
    }
    if (point == '^') reader->reason = "the anchor ^";
    if (point == '*' || point == '+' || point == '?') reader->reason = "a repetition of nothing";
    if (point == '.') {
        point = '\n';
        negated = true;
    } else if (point == '\\') {
        HIL_TRY(hil_pattern_read_escape(reader, &point, &is_item));
    }
    if (reader->reason) return HIL_OK;
    if (!is_item) HIL_TRY(hil_pattern_read_points(reader, point, point));
    HIL_TRY(take_set(reader, negated, &set));
    return add_set_node(reader, set, out);
}

static int read_count(const char **at)
{
    int count = 0;
    for (; **at >= '0' && **at <= '9'; ++*at)
        if (count <= REPEAT_MAX) count = 10 * count + (**at - '0');
    return count;
}

/* Reads {n}, {n,}, {,m} or {n,m} if one is here; other braces are characters. */
static bool read_braces(hil_pattern_reader *reader, int *least, int *most)
{
    const char *at = reader->at + 1, *first = at;
    *least = read_count(&at);
    bool from = at > first, comma = *at == ',';
    *most = *least;
    if (comma) {
        const char *second = ++at;
        *most = read_count(&at);
        if (at == second) *most = -1;
        if (at == second && !from) return false;
    } else if (!from) {
        return false;
    }
    if (*at != '}') return false;
    reader->at = at + 1;
    if (*least > REPEAT_MAX || *most > REPEAT_MAX) reader->reason = "a repetition of over 1000";
    if (*most >= 0 && *most < *least) reader->reason = "a repetition of at most less than least";
    return true;
}

/* Reads the operator at the reader's place: repeats *node. *found: there was one. After braces,
   Oniguruma takes + as another repetition, and ? likewise where both counts are equal. */
static hil_status read_repeat(hil_pattern_reader *reader, int *node, bool *found)
{
    hil_pattern_node repeat = {.kind = HIL_NODE_REPEAT, .left = *node, .most = -1};
    char c = *reader->at;
    bool braces = c == '{' && read_braces(reader, &repeat.least, &repeat.most);
    *found = braces || c == '*' || c == '+' || c == '?';
    if (!*found || reader->reason) return HIL_OK;
    if (!braces) ++reader->at;
    if (!braces) repeat.least = c == '+';
    if (c == '?') repeat.most = 1;
    if (*reader->at == '?' && (!braces || repeat.least != repeat.most)) {
        repeat.lazy = true;
        ++reader->at;
    } else if (*reader->at == '+' && !braces) {
        repeat.possessive = true;
        ++reader->at;
        HIL_TRY(set_of(reader, *node, &repeat.set));
        if (repeat.set < 0) reader->reason = "a possessive repetition of more than one character";
    }
    return reader->reason ? HIL_OK : hil_pattern_tree_add_node(reader->tree, repeat, node);
}

/* Letters that are one character in another case: ss is U+00DF, ff is U+FB00. */
static bool folds_together(const char *letters)
{
    static const char *const pairs[] = {"ss", "st", "ff", "fi", "fl"};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i)
        if (strncasecmp(letters, pairs[i], 2) == 0) return true;
    return false;
}

static hil_status read_then(hil_pattern_reader *reader, int *out)
{
    HIL_TRY(
        hil_pattern_tree_add_node(reader->tree, (hil_pattern_node){.kind = HIL_NODE_EMPTY}, out));
    while (!reader->reason && *reader->at && *reader->at != '|' && *reader->at != ')') {
        int node = -1;
        bool found = true;
        if (reader->fold && folds_together(reader->at))
            reader->reason = "(?i) with letters that fold to one character";
        if (reader->tree->node_count > NODES_MAX) reader->reason = "it is too long";
        if (reader->reason) return HIL_OK;
        HIL_TRY(read_atom(reader, &node));
        while (found && !reader->reason) HIL_TRY(read_repeat(reader, &node, &found));
        if (reader->reason) return HIL_OK;
        bool first = reader->tree->nodes[*out].kind == HIL_NODE_EMPTY;
        hil_pattern_node then = {.kind = HIL_NODE_THEN, .left = *out, .right = node};
        if (first)
            *out = node;
        else
            HIL_TRY(hil_pattern_tree_add_node(reader->tree, then, out));
    }
    return HIL_OK;
}

static hil_status read_either(hil_pattern_reader *reader, int *out)
{
    HIL_TRY(read_then(reader, out));
    while (!reader->reason && *reader->at == '|') {
        hil_pattern_node either = {.kind = HIL_NODE_EITHER, .left = *out};
        ++reader->at;
        HIL_TRY(read_then(reader, &either.right));
        if (!reader->reason) HIL_TRY(hil_pattern_tree_add_node(reader->tree, either, out));
    }
    return HIL_OK;
}

hil_status hil_pattern_parse(hil_pattern_tree *tree, const char *pattern, const char **reason)
{
    hil_pattern_reader reader = {.at = pattern, .tree = tree, .items = -1};
    HIL_TRY(read_either(&reader, &tree->root));
    if (!reader.reason && *reader.at) reader.reason = "a ) without its (";
    *reason = reader.reason;
    return HIL_OK;
}
