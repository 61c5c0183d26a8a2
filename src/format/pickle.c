/* pickle.c - see [Note: pickle]. */
#include "format/pickle.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

enum { CLASS_MOST = 200 }; /* bytes of the name of a class, and of its module */

typedef hil_pickle_value value;

typedef struct hil_pickle_machine {
    hil_arena *arena;
    const unsigned char *at, *end;
    size_t size;
    const char *what;
    value **stack;
    size_t depth, stack_room;
    size_t *mark; /* depths of the stack */
    size_t marks, mark_room;
    value **memo;
    size_t memo_count, memo_room;
} machine;

static hil_status broken(const machine *m, const char *why)
{
    return hil_fail(HIL_ERR_INPUT, "%s: its pickle cannot be read: %s at byte %zu", m->what, why,
                    m->size - (size_t)(m->end - m->at));
}

static hil_status new_value(machine *m, hil_pickle_kind kind, value **out)
{
    HIL_TRY(HIL_ARENA_NEW(m->arena, 1, out));
    (*out)->kind = kind;
    return HIL_OK;
}

static hil_status push(machine *m, value *v)
{
    HIL_TRY(HIL_GROW(&m->stack, &m->stack_room, m->depth + 1));
    m->stack[m->depth++] = v;
    return HIL_OK;
}

static hil_status push_new(machine *m, hil_pickle_kind kind, int64_t whole)
{
    value *v;
    HIL_TRY(new_value(m, kind, &v));
    v->whole = whole;
    v->real = (double)whole;
    return push(m, v);
}

/* Takes the top of the stack, which does not reach below the last mark. */
static hil_status pop(machine *m, value **out)
{
    size_t least = m->marks ? m->mark[m->marks - 1] : 0;
    *out = NULL;
    if (m->depth <= least) return broken(m, "its stack is empty");
    *out = m->stack[--m->depth];
    return HIL_OK;
}

static hil_status top(machine *m, value **out)
{
    HIL_TRY(pop(m, out));
    ++m->depth;
    return HIL_OK;
}

/* Little-endian number of `bytes` bytes. */
static hil_status take_number(machine *m, size_t bytes, uint64_t *out)
{
    *out = 0;
    if ((size_t)(m->end - m->at) < bytes) return broken(m, "it ends too early");
    for (size_t i = 0; i < bytes; ++i) *out |= (uint64_t)m->at[i] << 8 * i;
    m->at += bytes;
    return HIL_OK;
}

static hil_status take_bytes(machine *m, size_t size, const unsigned char **out)
{
    *out = m->at;
    if ((size_t)(m->end - m->at) < size) return broken(m, "it ends too early");
    m->at += size;
    return HIL_OK;
}

static hil_status copy_text(machine *m, const void *bytes, size_t size, const char **out)
{
    char *copy;
    HIL_TRY(HIL_ARENA_NEW(m->arena, size + 1, &copy));
    memcpy(copy, bytes, size);
    *out = copy;
    return HIL_OK;
}

/* A text whose length is a number of `bytes` bytes. */
static hil_status push_text(machine *m, size_t bytes)
{
    uint64_t size;
    const unsigned char *text;
    value *v;
    HIL_TRY(take_number(m, bytes, &size));
    if (size > m->size) return broken(m, "it ends too early");
    HIL_TRY(take_bytes(m, (size_t)size, &text));
    HIL_TRY(new_value(m, HIL_PICKLE_TEXT, &v));
    HIL_TRY(copy_text(m, text, (size_t)size, &v->text));
    return push(m, v);
}

static hil_status push_real(machine *m)
{
    uint64_t bits = 0;
    const unsigned char *at;
    value *v;
    HIL_TRY(take_bytes(m, 8, &at));
    for (int i = 0; i < 8; ++i) bits = bits << 8 | at[i];
    HIL_TRY(new_value(m, HIL_PICKLE_REAL, &v));
    memcpy(&v->real, &bits, sizeof bits);
    return push(m, v);
}

/* A number of up to 8 bytes with its sign; longer ones have no use here. */
static hil_status push_long(machine *m)
{
    uint64_t size, bits;
    HIL_TRY(take_number(m, 1, &size));
    if (size > 8) return broken(m, "a number is too long");
    HIL_TRY(take_number(m, (size_t)size, &bits));
    if (size && size < 8 && bits >> (8 * size - 1)) bits |= UINT64_MAX << 8 * size;
    return push_new(m, HIL_PICKLE_INT, (int64_t)bits);
}

static hil_status add_item(machine *m, value *list, value *item)
{
    if (list->count == list->capacity) {
        value **larger;
        size_t room = list->capacity ? 2 * list->capacity : 4;
        HIL_TRY(HIL_ARENA_NEW(m->arena, room, &larger));
        if (list->count) memcpy(larger, list->item, list->count * sizeof *larger);
        list->item = larger;
        list->capacity = room;
    }
    list->item[list->count++] = item;
    return HIL_OK;
}

/* The values above the last mark, which it removes; they stay in place until the next push. */
static hil_status pop_mark(machine *m, value ***items, size_t *count)
{
    *items = NULL;
    *count = 0;
    if (!m->marks) return broken(m, "a mark is missing");
    size_t first = m->mark[--m->marks];
    *count = m->depth - first;
    if (*count) *items = m->stack + first;
    m->depth = first;
    return HIL_OK;
}

static hil_status push_tuple(machine *m, value **items, size_t count)
{
    value *v;
    HIL_TRY(new_value(m, HIL_PICKLE_LIST, &v));
    for (size_t i = 0; i < count; ++i) HIL_TRY(add_item(m, v, items[i]));
    return push(m, v);
}

static hil_status push_small_tuple(machine *m, size_t count)
{
    value *items[3] = {NULL};
    for (size_t i = count; i-- > 0;) HIL_TRY(pop(m, &items[i]));
    return push_tuple(m, items, count);
}

/* Appends to the list, or the dictionary, below the mark. What an object would do with it is left
   out. */
static hil_status extend(machine *m, hil_pickle_kind kind, value **items, size_t count)
{
    value *target;
    HIL_TRY(top(m, &target));
    if (target->kind == HIL_PICKLE_OBJECT) return HIL_OK;
    if (target->kind != kind || (kind == HIL_PICKLE_DICT && count % 2))
        return broken(m, "items are added to something else");
    for (size_t i = 0; i < count; ++i) HIL_TRY(add_item(m, target, items[i]));
    return HIL_OK;
}

static hil_status extend_marked(machine *m, hil_pickle_kind kind)
{
    value **items;
    size_t count;
    HIL_TRY(pop_mark(m, &items, &count));
    return extend(m, kind, items, count);
}

static hil_status extend_few(machine *m, hil_pickle_kind kind, size_t count)
{
    value *items[2] = {NULL};
    for (size_t i = count; i-- > 0;) HIL_TRY(pop(m, &items[i]));
    return extend(m, kind, items, count);
}

/* "module\nname\n". */
static hil_status push_global(machine *m)
{
    const unsigned char *first = memchr(m->at, '\n', (size_t)(m->end - m->at));
    const unsigned char *second =
        first ? memchr(first + 1, '\n', (size_t)(m->end - first - 1)) : NULL;
    value *v;
    if (!second) return broken(m, "it ends too early");
    HIL_TRY(new_value(m, HIL_PICKLE_GLOBAL, &v));
    HIL_TRY(copy_text(m, m->at, (size_t)(second - m->at), &v->text));
    ((char *)(uintptr_t)v->text)[first - m->at] = ' ';
    m->at = second + 1;
    return push(m, v);
}

static hil_status push_stack_global(machine *m)
{
    value *name, *module, *v;
    HIL_TRY(pop(m, &name));
    HIL_TRY(pop(m, &module));
    if (name->kind != HIL_PICKLE_TEXT || module->kind != HIL_PICKLE_TEXT)
        return broken(m, "a class has no name");
    if (strnlen(module->text, CLASS_MOST + 1) > CLASS_MOST ||
        strnlen(name->text, CLASS_MOST + 1) > CLASS_MOST) /* a copy of them costs three bytes */
        return broken(m, "a class has a name that is too long");
    char *text;
    size_t size = strlen(module->text) + strlen(name->text) + 2;
    HIL_TRY(new_value(m, HIL_PICKLE_GLOBAL, &v));
    HIL_TRY(HIL_ARENA_NEW(m->arena, size, &text));
    snprintf(text, size, "%s %s", module->text, name->text);
    v->text = text;
    return push(m, v);
}

static hil_status push_object(machine *m, hil_pickle_kind kind, const value *class,
                              const value *arguments)
{
    value *v;
    HIL_TRY(new_value(m, kind, &v));
    v->text = class->text ? class->text : "";
    v->item = arguments->item;
    v->count = arguments->count; /* shared with the tuple, which never grows */
    return push(m, v);
}

/* What a function would return for a tuple of arguments. */
static hil_status push_result(machine *m, const value *function, const value *arguments)
{
    const char *name = function->kind == HIL_PICKLE_GLOBAL ? function->text : "";
    const value *rest = hil_pickle_at(arguments, 2);
    bool has_first = arguments->count > 0;
    if (strcmp(name, "torch._utils _rebuild_tensor_v2") == 0 ||
        strcmp(name, "torch._utils _rebuild_tensor") == 0)
        return push_object(m, HIL_PICKLE_TENSOR, function, arguments);
    if (strcmp(name, "torch._tensor _rebuild_from_type_v2") == 0 && rest &&
        rest->kind == HIL_PICKLE_LIST && arguments->item[0]->kind == HIL_PICKLE_GLOBAL &&
        strcmp(arguments->item[0]->text, "torch._utils _rebuild_tensor_v2") == 0)
        return push_object(m, HIL_PICKLE_TENSOR, function, rest);
    if ((strcmp(name, "torch._utils _rebuild_parameter") == 0 || strcmp(name, "torch Size") == 0) &&
        has_first)
        return push(m, arguments->item[0]);
    if (strcmp(name, "collections OrderedDict") == 0 && !has_first)
        return push_new(m, HIL_PICKLE_DICT, 0);
    return push_object(m, HIL_PICKLE_OBJECT, function, arguments);
}

static hil_status call(machine *m, bool known)
{
    value *function, *arguments;
    HIL_TRY(pop(m, &arguments));
    HIL_TRY(pop(m, &function));
    if (arguments->kind != HIL_PICKLE_LIST) return broken(m, "a call has no arguments");
    return known ? push_result(m, function, arguments)
                 : push_object(m, HIL_PICKLE_OBJECT, function, arguments);
}

/* Attributes of an object; those of dictionaries and tensors have no meaning here. */
static hil_status build(machine *m)
{
    value *state, *object;
    HIL_TRY(pop(m, &state));
    HIL_TRY(top(m, &object));
    if (object->kind == HIL_PICKLE_OBJECT) object->state = state;
    return HIL_OK;
}

static hil_status push_storage(machine *m)
{
    value *id;
    HIL_TRY(pop(m, &id));
    if (id->kind != HIL_PICKLE_LIST) return broken(m, "a storage has no key");
    return push_object(m, HIL_PICKLE_STORAGE, id, id);
}

/* Keeps the top of the stack under a number; torch counts from 0. */
static hil_status put(machine *m, size_t bytes)
{
    uint64_t i = m->memo_count;
    value *v;
    if (bytes) HIL_TRY(take_number(m, bytes, &i));
    HIL_TRY(top(m, &v));
    if (i > m->memo_count) return broken(m, "it keeps a value under a number out of order");
    if (i == m->memo_count) {
        HIL_TRY(HIL_GROW(&m->memo, &m->memo_room, m->memo_count + 1));
        ++m->memo_count;
    }
    m->memo[i] = v;
    return HIL_OK;
}

static hil_status get(machine *m, size_t bytes)
{
    uint64_t i;
    HIL_TRY(take_number(m, bytes, &i));
    if (i >= m->memo_count) return broken(m, "it refers to a value that it has not kept");
    return push(m, m->memo[i]);
}

static hil_status push_mark(machine *m)
{
    HIL_TRY(HIL_GROW(&m->mark, &m->mark_room, m->marks + 1));
    m->mark[m->marks++] = m->depth;
    return HIL_OK;
}

static hil_status push_signed(machine *m)
{
    uint64_t bits;
    HIL_TRY(take_number(m, 4, &bits));
    return push_new(m, HIL_PICKLE_INT, (int32_t)(uint32_t)bits);
}

static hil_status push_unsigned(machine *m, size_t bytes)
{
    uint64_t bits;
    HIL_TRY(take_number(m, bytes, &bits));
    return push_new(m, HIL_PICKLE_INT, (int64_t)bits);
}

static hil_status skip(machine *m, size_t bytes)
{
    const unsigned char *none;
    return take_bytes(m, bytes, &none);
}

static hil_status tuple_of_marked(machine *m)
{
    value **items;
    size_t count;
    HIL_TRY(pop_mark(m, &items, &count));
    return push_tuple(m, items, count);
}

/* Operations with a value of their own; the others are in `step`. */
static hil_status push_operand(machine *m, unsigned char code)
{
    switch (code) {
    case 'N': /* NONE */
        return push_new(m, HIL_PICKLE_NONE, 0);
    case 0x88: /* NEWTRUE */
    case 0x89: /* NEWFALSE */
        return push_new(m, HIL_PICKLE_BOOL, code == 0x88);
    case 'J': /* BININT */
        return push_signed(m);
    case 'K': /* BININT1 */
        return push_unsigned(m, 1);
    case 'M': /* BININT2 */
        return push_unsigned(m, 2);
    case 0x8a: /* LONG1 */
        return push_long(m);
    case 'G': /* BINFLOAT */
        return push_real(m);
    case 'X': /* BINUNICODE */
    case 'T': /* BINSTRING */
    case 'B': /* BINBYTES */
        return push_text(m, 4);
    case 0x8c: /* SHORT_BINUNICODE */
    case 'U':  /* SHORT_BINSTRING */
    case 'C':  /* SHORT_BINBYTES */
        return push_text(m, 1);
    case '}': /* EMPTY_DICT */
        return push_new(m, HIL_PICKLE_DICT, 0);
    case ']': /* EMPTY_LIST */
    case ')': /* EMPTY_TUPLE */
        return push_new(m, HIL_PICKLE_LIST, 0);
    default:
        return broken(m, "it has an operation that tensors do not need");
    }
}

static hil_status step(machine *m, unsigned char code)
{
    switch (code) {
    case 0x80: /* PROTO */
        return skip(m, 1);
    case 0x95: /* FRAME */
        return skip(m, 8);
    case '(':
        return push_mark(m);
    case 't':
        return tuple_of_marked(m);
    case 0x85: /* TUPLE1 to TUPLE3 */
    case 0x86:
    case 0x87:
        return push_small_tuple(m, (size_t)(code - 0x84));
    case 'a':
        return extend_few(m, HIL_PICKLE_LIST, 1);
    case 'e':
        return extend_marked(m, HIL_PICKLE_LIST);
    case 's':
        return extend_few(m, HIL_PICKLE_DICT, 2);
    case 'u':
        return extend_marked(m, HIL_PICKLE_DICT);
    case 'q': /* BINPUT */
        return put(m, 1);
    case 'r': /* LONG_BINPUT */
        return put(m, 4);
    case 0x94: /* MEMOIZE */
        return put(m, 0);
    case 'h': /* BINGET */
        return get(m, 1);
    case 'j': /* LONG_BINGET */
        return get(m, 4);
    case 'c':
        return push_global(m);
    case 0x93:
        return push_stack_global(m);
    case 'R': /* REDUCE */
        return call(m, true);
    case 0x81: /* NEWOBJ */
        return call(m, false);
    case 'b':
        return build(m);
    case 'Q': /* BINPERSID */
        return push_storage(m);
    default:
        return push_operand(m, code);
    }
}

static hil_status run(machine *m, const value **root)
{
    while (m->at < m->end) {
        unsigned char code = *m->at++;
        if (code != '.') {
            HIL_TRY(step(m, code));
            continue;
        }
        value *last;
        HIL_TRY(pop(m, &last));
        *root = last;
        return HIL_OK;
    }
    return broken(m, "it ends too early");
}

hil_status hil_pickle_parse(hil_pickle *out, const char *bytes, size_t size, const char *what)
{
    *out = (hil_pickle){0};
    const unsigned char *at = (const unsigned char *)bytes;
    machine m = {.arena = &out->arena, .at = at, .end = at + size, .size = size, .what = what};
    hil_status status = run(&m, &out->root);
    hil_free(m.stack);
    hil_free(m.mark);
    hil_free(m.memo);
    if (status != HIL_OK) hil_pickle_free(out);
    return status;
}

void hil_pickle_free(hil_pickle *pickle)
{
    hil_arena_free(&pickle->arena);
    *pickle = (hil_pickle){0};
}

const hil_pickle_value *hil_pickle_get(const hil_pickle_value *dict, const char *key)
{
    if (!dict || dict->kind != HIL_PICKLE_DICT) return NULL;
    for (size_t i = 0; i + 1 < dict->count; i += 2)
        if (dict->item[i]->kind == HIL_PICKLE_TEXT && strcmp(dict->item[i]->text, key) == 0)
            return dict->item[i + 1];
    return NULL;
}

const hil_pickle_value *hil_pickle_get_index(const hil_pickle_value *dict, int64_t key)
{
    if (!dict || dict->kind != HIL_PICKLE_DICT) return NULL;
    for (size_t i = 0; i + 1 < dict->count; i += 2)
        if (dict->item[i]->kind == HIL_PICKLE_INT && dict->item[i]->whole == key)
            return dict->item[i + 1];
    return NULL;
}

const hil_pickle_value *hil_pickle_at(const hil_pickle_value *list, size_t i)
{
    bool has = list && (list->kind == HIL_PICKLE_LIST || list->kind == HIL_PICKLE_OBJECT ||
                        list->kind == HIL_PICKLE_TENSOR || list->kind == HIL_PICKLE_STORAGE);
    return has && i < list->count ? list->item[i] : NULL;
}

bool hil_pickle_whole(const hil_pickle_value *v, int64_t *out)
{
    if (v && v->kind == HIL_PICKLE_OBJECT) v = hil_pickle_at(v, 0);
    if (!v || (v->kind != HIL_PICKLE_INT && v->kind != HIL_PICKLE_BOOL)) return false;
    *out = v->whole;
    return true;
}
