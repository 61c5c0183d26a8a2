/* pattern_compile.c - an expression to the table of its states. */
#include "text/pattern/pattern_tree.h"

#include <string.h>

enum { PROGRAM_MAX = 4000, STATES_MAX = 1000, TABLE_MAX = 1 << 17 };

typedef enum op { OP_SET, OP_AHEAD, OP_BRANCH, OP_MATCH } op;

/* SET and AHEAD continue with the next instruction, BRANCH with `first`, then `second` (-1: none).
 */
typedef struct instruction {
    op op;
    int set, first, second;
    bool wanted, at_end;
} instruction;

/* A state: places [from, from + count) of `places`, by preference. */
typedef struct state {
    size_t from, count;
} state;

typedef struct compiler {
    const hil_pattern_tree *tree;
    hil_pattern *regex;
    uint64_t *members; /* of a class: the sets that it is in */
    instruction *program;
    size_t size, capacity;
    state *states;
    size_t state_count, state_capacity;
    int *places;
    size_t place_count, place_capacity;
    int *stack; /* places still to follow */
    size_t stack_size, stack_capacity;
    uint32_t *seen; /* marks of places, for one list or one step */
    uint32_t mark;
    const char *reason;
} compiler;

static hil_status emit(compiler *c, instruction next)
{
    if (c->size >= PROGRAM_MAX) {
        c->reason = "it has too many repetitions";
        return HIL_OK;
    }
    HIL_TRY(HIL_GROW(&c->program, &c->capacity, c->size + 1));
    c->program[c->size++] = next;
    return HIL_OK;
}

static hil_status emit_node(compiler *c, int node);

/* A branch to what follows it or, less or more preferred, past a body that is still to be emitted.
 */
static hil_status emit_choice(compiler *c, bool lazy, size_t *at)
{
    *at = c->size;
    int next = (int)c->size + 1;
    return emit(c, lazy ? (instruction){.op = OP_BRANCH, .first = -1, .second = next}
                        : (instruction){.op = OP_BRANCH, .first = next, .second = -1});
}

static void close_choice(compiler *c, size_t at, size_t target)
{
    if (at >= c->size) return;
    instruction *branch = &c->program[at];
    *(branch->first < 0 ? &branch->first : &branch->second) = (int)target;
}

static hil_status emit_jump(compiler *c, size_t target)
{
    return emit(c, (instruction){.op = OP_BRANCH, .first = (int)target, .second = -1});
}

/* The repetitions beyond the least number. Each way out of a possessive one needs that no further
   repetition is possible. */
static hil_status emit_optional(compiler *c, const hil_pattern_node *n)
{
    size_t choice, done;
    HIL_TRY(emit_choice(c, n->lazy, &choice));
    HIL_TRY(emit_node(c, n->left));
    if (n->most < 0) {
        HIL_TRY(emit_jump(c, choice));
        close_choice(c, choice, c->size);
        return HIL_OK;
    }
    done = c->size;
    HIL_TRY(emit_jump(c, done));
    close_choice(c, choice, c->size);
    if (n->possessive)
        HIL_TRY(emit(c, (instruction){.op = OP_AHEAD, .set = n->set, .at_end = true}));
    if (done < c->size) c->program[done].first = (int)c->size;
    return HIL_OK;
}

static hil_status emit_repeat(compiler *c, const hil_pattern_node *n)
{
    for (int i = 0; i < n->least && !c->reason; ++i) HIL_TRY(emit_node(c, n->left));
    if (n->most < 0) {
        HIL_TRY(emit_optional(c, n));
        if (n->possessive)
            return emit(c, (instruction){.op = OP_AHEAD, .set = n->set, .at_end = true});
        return HIL_OK;
    }
    if (n->possessive) return emit_optional(c, n);
    /* x{0,3} is (x(x(x)?)?)?: all ways out lead past the last one. */
    size_t first = c->size;
    for (int i = n->least; i < n->most && !c->reason; ++i) {
        size_t choice;
        HIL_TRY(emit_choice(c, n->lazy, &choice));
        HIL_TRY(emit_node(c, n->left));
    }
    size_t at = first, end = c->size;
    for (int i = n->least; i < n->most && !c->reason; ++i) {
        size_t body = (end - first) / (size_t)(n->most - n->least);
        close_choice(c, at, end);
        at += body;
    }
    return HIL_OK;
}

static hil_status emit_either(compiler *c, const hil_pattern_node *n)
{
    size_t choice, jump;
    HIL_TRY(emit_choice(c, false, &choice));
    HIL_TRY(emit_node(c, n->left));
    jump = c->size;
    HIL_TRY(emit_jump(c, jump));
    close_choice(c, choice, c->size);
    HIL_TRY(emit_node(c, n->right));
    if (jump < c->size) c->program[jump].first = (int)c->size;
    return HIL_OK;
}

static hil_status emit_node(compiler *c, int node)
{
    const hil_pattern_node *n = &c->tree->nodes[node];
    if (c->reason) return HIL_OK;
    switch (n->kind) {
    case HIL_NODE_EMPTY:
        break;
    case HIL_NODE_SET:
        return emit(c, (instruction){.op = OP_SET, .set = n->set});
    case HIL_NODE_AHEAD:
        return emit(
            c,
            (instruction){.op = OP_AHEAD, .set = n->set, .wanted = n->wanted, .at_end = n->at_end});
    case HIL_NODE_THEN:
        HIL_TRY(emit_node(c, n->left));
        return emit_node(c, n->right);
    case HIL_NODE_EITHER:
        return emit_either(c, n);
    case HIL_NODE_REPEAT:
        return emit_repeat(c, n);
    }
    return HIL_OK;
}

static hil_status push(compiler *c, int place)
{
    HIL_TRY(HIL_GROW(&c->stack, &c->stack_capacity, c->stack_size + 1));
    c->stack[c->stack_size++] = place;
    return HIL_OK;
}

/* Takes the next place that no one followed under this mark; -1: none is left. Branches are
   followed on the way. */
static hil_status pop(compiler *c, int *place)
{
    while (c->stack_size > 0) {
        int at = c->stack[--c->stack_size];
        if (c->seen[at] == c->mark) continue;
        c->seen[at] = c->mark;
        const instruction *i = &c->program[at];
        if (i->op != OP_BRANCH) {
            *place = at;
            return HIL_OK;
        }
        if (i->second >= 0) HIL_TRY(push(c, i->second));
        HIL_TRY(push(c, i->first));
    }
    *place = -1;
    return HIL_OK;
}

static bool passes(const compiler *c, const instruction *i, uint32_t class)
{
    if (class + 1 == c->regex->classes) return i->at_end;
    return (bool)(c->members[class] >> i->set & 1) == i->wanted;
}

/* Lists the places after a character of `class`, by preference; *match: a match ends before the
   character, so what is less preferred is left out. */
static hil_status follow(compiler *c, const state *from, uint32_t class, int *next, size_t *count,
                         bool *match)
{
    *match = false;
    *count = 0;
    ++c->mark;
    for (size_t i = 0; i < from->count && !*match; ++i) {
        int place;
        HIL_TRY(push(c, c->places[from->from + i]));
        for (;;) {
            HIL_TRY(pop(c, &place));
            if (place < 0) break;
            const instruction *at = &c->program[place];
            *match = at->op == OP_MATCH;
            if (*match) break;
            bool takes = at->op == OP_SET && class + 1 < c->regex->classes &&
                         c->members[class] >> at->set & 1;
            if (takes) next[(*count)++] = place + 1;
            if (at->op == OP_AHEAD && passes(c, at, class)) HIL_TRY(push(c, place + 1));
        }
        c->stack_size = 0;
    }
    return HIL_OK;
}

/* The state of the places that `list` leads to without a character; a new one if there is none. */
static hil_status intern(compiler *c, const int *list, size_t count, uint32_t *out)
{
    size_t from = c->place_count;
    ++c->mark;
    for (size_t i = 0; i < count; ++i) {
        int place;
        HIL_TRY(push(c, list[i]));
        for (;;) {
            HIL_TRY(pop(c, &place));
            if (place < 0) break;
            HIL_TRY(HIL_GROW(&c->places, &c->place_capacity, c->place_count + 1));
            c->places[c->place_count++] = place;
        }
    }
    size_t size = c->place_count - from;
    for (size_t i = 0; i < c->state_count; ++i) {
        const state *old = &c->states[i];
        if (old->count != size || (size && memcmp(c->places + old->from, c->places + from,
                                                  size * sizeof *c->places) != 0))
            continue;
        c->place_count = from;
        *out = (uint32_t)i;
        return HIL_OK;
    }
    if ((c->state_count + 1) * c->regex->classes > TABLE_MAX || c->state_count == STATES_MAX)
        c->reason = "its table of states is too large";
    HIL_TRY(HIL_GROW(&c->states, &c->state_capacity, c->state_count + 1));
    c->states[c->state_count] = (state){from, size};
    *out = (uint32_t)c->state_count++;
    return HIL_OK;
}

static hil_status build_table(compiler *c, int *next)
{
    hil_pattern *regex = c->regex;
    size_t capacity = 0, count;
    uint32_t target;
    const int begin = 0;
    HIL_TRY(intern(c, NULL, 0, &target)); /* HIL_PATTERN_DEAD */
    HIL_TRY(intern(c, &begin, 1, &target));
    for (size_t s = 0; s < c->state_count && !c->reason; ++s) {
        HIL_TRY(HIL_GROW(&regex->table, &capacity, (s + 1) * regex->classes));
        for (uint32_t class = 0; class < regex->classes && !c->reason; ++class) {
            bool match;
            const state from = c->states[s];
            HIL_TRY(follow(c, &from, class, next, &count, &match));
            HIL_TRY(intern(c, next, count, &target));
            regex->table[s * regex->classes + class] = 2 * target + match;
            if (match && s == HIL_PATTERN_START) c->reason = "it can match an empty text";
        }
    }
    regex->states = c->state_count;
    return HIL_OK;
}

static hil_status compile(compiler *c)
{
    int *next = NULL;
    hil_status status;
    HIL_TRY_DONE(emit_node(c, c->tree->root));
    HIL_TRY_DONE(emit(c, (instruction){.op = OP_MATCH}));
    if (!c->reason) HIL_TRY_DONE(hil_pattern_classify(c->regex, c->tree, &c->members, &c->reason));
    HIL_TRY_DONE(HIL_ALLOC(c->size + 1, &c->seen));
    HIL_TRY_DONE(HIL_ALLOC(c->size + 1, &next));
    if (!c->reason) HIL_TRY_DONE(build_table(c, next));
done:
    hil_free(next);
    hil_free(c->program);
    hil_free(c->members);
    hil_free(c->states);
    hil_free(c->places);
    hil_free(c->stack);
    hil_free(c->seen);
    return status;
}

/* Compiles the tree unless the parser gave a reason not to. Frees the tree. */
static hil_status finish(hil_pattern *regex, hil_pattern_tree *tree, const char *reason,
                         const char *pattern, const char *what)
{
    compiler c = {.tree = tree, .regex = regex, .reason = reason};
    *regex = (hil_pattern){0};
    hil_status status = reason ? HIL_OK : compile(&c);
    hil_pattern_tree_free(tree);
    if (status == HIL_OK && c.reason)
        status = hil_fail(HIL_ERR_INPUT, "%s: the pattern \"%.300s\" is not supported: %s", what,
                          pattern, c.reason);
    if (status != HIL_OK) hil_pattern_free(regex);
    return status;
}

hil_status hil_pattern_compile(hil_pattern *regex, const char *pattern, const char *what)
{
    hil_pattern_tree tree = {0};
    const char *reason = NULL;
    hil_status status = hil_pattern_parse(&tree, pattern, &reason);
    if (status == HIL_OK) return finish(regex, &tree, reason, pattern, what);
    hil_pattern_tree_free(&tree);
    return status;
}

hil_status hil_pattern_compile_class(hil_pattern *regex, hil_pattern_item_kind kind)
{
    hil_pattern_tree tree = {0};
    hil_pattern_reader reader = {.tree = &tree, .items = -1};
    int set;
    hil_status status;
    HIL_TRY_DONE(hil_pattern_read_add(&reader, (hil_pattern_item){.kind = kind}));
    HIL_TRY_DONE(hil_pattern_tree_add_set(
        &tree, (hil_pattern_set){.items = reader.items, .also = -1}, &set));
    HIL_TRY_DONE(hil_pattern_tree_add_node(
        &tree, (hil_pattern_node){.kind = HIL_NODE_SET, .set = set}, &tree.root));
    return finish(regex, &tree, NULL, "", "");
done:
    hil_pattern_tree_free(&tree);
    return status;
}

hil_status hil_pattern_compile_text(hil_pattern *regex, const char *text, const char *what)
{
    hil_text pattern = {0};
    hil_status status = HIL_OK;
    for (const char *at = text; *at && status == HIL_OK; ++at) {
        if (strchr("\\.[](){}*+?|^$", *at)) status = hil_text_add(&pattern, "\\", 1);
        if (status == HIL_OK) status = hil_text_add(&pattern, at, 1);
    }
    if (status == HIL_OK) status = hil_pattern_compile(regex, pattern.data, what);
    hil_text_free(&pattern);
    return status;
}

void hil_pattern_free(hil_pattern *regex)
{
    hil_free(regex->page_classes);
    hil_free(regex->table);
    *regex = (hil_pattern){0};
}
