/* pack.c - files to windows: read a piece, encode it, mark the tokens, append them. */
#include "data/pack.h"

#include "data/dialogue.h"
#include "data/input.h"
#include "data/jsonl.h"
#include "data/file_type.h"
#include "data/prompt.h"
#include "data/table.h"
#include "data/windows.h"
#include "format/npy.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PIECE ((size_t)1 << 20)
#define ROWS_REPORTED 64 /* rows of a table between two reports of progress */

enum kind { KIND_TEXT, KIND_TOKENS };

struct pack {
    const hil_dataset_options *options;
    hil_windows *windows;
    hil_encoder *encoder; /* NULL: bytes are ids */
    hil_ids ids, prompt;
    uint32_t *example; /* tokens with marks */
    size_t example_size, example_room;
    hil_chat_template *chat; /* opened for the first conversation */
    hil_dialogue dialogue;
    int64_t conversations;
    char *piece;
    const char *path;
    const char *unit; /* what records are counted in: "line" or "row" */
    int64_t position; /* of the next token in its file */
    bool starting;    /* the next token begins a document */
    bool labels;      /* examples of the file have labels, which are not read */
    enum kind before; /* kind of the last token of the text; KIND_TOKENS at the start */
    uint64_t bytes_before, bytes_total;
};

static hil_status report(const struct pack *pack, uint64_t bytes)
{
    const hil_dataset_options *options = pack->options;
    if (!options->progress) return HIL_OK;
    return options->progress(options->context, pack->bytes_before + bytes, pack->bytes_total);
}

static hil_status check_id(struct pack *pack, int32_t id)
{
    if (id < 0 || id >= pack->options->vocab)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: token id %d at position %lld is outside the vocabulary of %lld",
                        pack->path, id, (long long)pack->position, (long long)pack->options->vocab);
    ++pack->position;
    return HIL_OK;
}

/* Appends pack->ids and empties it. */
static hil_status flush_ids(struct pack *pack, enum kind kind)
{
    hil_ids *ids = &pack->ids;
    if (ids->size && pack->starting && kind == KIND_TEXT && pack->before == KIND_TEXT &&
        pack->options->eot >= 0)
        HIL_TRY(hil_windows_text(pack->windows, (uint32_t)pack->options->eot));
    for (size_t i = 0; i < ids->size; ++i) {
        uint32_t start = pack->starting ? HIL_MARK_START : 0;
        HIL_TRY(check_id(pack, ids->data[i]));
        HIL_TRY(hil_windows_text(pack->windows, (uint32_t)ids->data[i] | start));
        pack->starting = false;
        pack->before = kind;
    }
    ids->size = 0;
    return HIL_OK;
}

static hil_status encode(struct pack *pack, const char *text, size_t size, hil_ids *ids)
{
    if (pack->encoder) return hil_encoder_add(pack->encoder, text, size, ids);
    HIL_TRY(HIL_GROW(&ids->data, &ids->capacity, ids->size + size));
    for (size_t i = 0; i < size; ++i) ids->data[ids->size++] = (unsigned char)text[i];
    return HIL_OK;
}

static hil_status encode_end(struct pack *pack, hil_ids *ids)
{
    return pack->encoder ? hil_encoder_end(pack->encoder, ids) : HIL_OK;
}

static hil_status pack_text(struct pack *pack)
{
    hil_input *input = NULL;
    hil_status status;
    HIL_TRY_DONE(hil_input_open(&input, pack->path));
    pack->starting = true;
    size_t got;
    do {
        HIL_TRY_DONE(hil_input_read(input, pack->piece, PIECE, &got));
        HIL_TRY_DONE(encode(pack, pack->piece, got, &pack->ids));
        HIL_TRY_DONE(flush_ids(pack, KIND_TEXT));
        HIL_TRY_DONE(report(pack, hil_input_position(input)));
    } while (got == PIECE);
    HIL_TRY_DONE(encode_end(pack, &pack->ids));
    HIL_TRY_DONE(flush_ids(pack, KIND_TEXT));
done:
    hil_input_close(input);
    return status;
}

static hil_status pack_string(struct pack *pack, const char *text, size_t size)
{
    while (size) {
        size_t part = size < PIECE ? size : PIECE;
        HIL_TRY(encode(pack, text, part, &pack->ids));
        HIL_TRY(flush_ids(pack, KIND_TEXT));
        text += part;
        size -= part;
    }
    HIL_TRY(encode_end(pack, &pack->ids));
    return flush_ids(pack, KIND_TEXT);
}

static hil_status add_marked(struct pack *pack, const int32_t *ids, size_t count, uint32_t mark)
{
    HIL_TRY(HIL_GROW(&pack->example, &pack->example_room, pack->example_size + count));
    for (size_t i = 0; i < count; ++i) {
        HIL_TRY(check_id(pack, ids[i]));
        pack->example[pack->example_size++] = (uint32_t)ids[i] | mark;
    }
    return HIL_OK;
}

/* The first token of an example takes no loss, because no token before it could predict it. */
static void mark_start(struct pack *pack, size_t at)
{
    if (pack->example_size > at) pack->example[at] |= HIL_MARK_START | HIL_MARK_NO_LOSS;
}

/* Appends prompt and completion to pack->example. */
static hil_status add_example(struct pack *pack, const hil_record *record)
{
    const hil_dataset_options *o = pack->options;
    hil_ids *prompt = &pack->prompt, *completion = &pack->ids;
    size_t at = pack->example_size;
    if (record->prompt_size || record->text_size) {
        hil_prompter prompter = {o->tokenizer, pack->encoder, o->bos, o->eot, o->stops};
        HIL_TRY(hil_prompter_example(&prompter, record, prompt, completion));
        uint32_t mark = o->answers == HIL_ANSWERS_ALL ? 0 : HIL_MARK_NO_LOSS;
        HIL_TRY(add_marked(pack, prompt->data, prompt->size, mark));
        HIL_TRY(add_marked(pack, completion->data, completion->size, 0));
        mark_start(pack, at);
    }
    completion->size = 0;
    return HIL_OK;
}

static hil_status encode_conversation(struct pack *pack, const json_t *variables, bool last_only)
{
    const hil_dataset_options *o = pack->options;
    if (!o->chat)
        return hil_fail(HIL_ERR_INPUT, "a conversation needs a model with a chat template");
    if (!pack->chat) HIL_TRY(hil_chat_template_open(&pack->chat, o->chat));
    pack->dialogue.chat = pack->chat;
    pack->dialogue.tokenizer = o->tokenizer;
    pack->dialogue.encoder = pack->encoder;
    bool narrow = last_only && o->answers == HIL_ANSWERS_ASSISTANT;
    pack->dialogue.answers = narrow ? HIL_ANSWERS_LAST : o->answers;
    return hil_dialogue_encode(&pack->dialogue, variables);
}

/* Puts the record's place before the message of a failure. */
static hil_status name_record(const struct pack *pack, int64_t line, hil_status status)
{
    char message[900];
    if (status != HIL_ERR_INPUT) return status;
    snprintf(message, sizeof message, "%s", hil_status_message());
    return hil_fail(status, "%s %s %lld: %s", pack->path, pack->unit, (long long)line, message);
}

/* Appends a conversation to pack->example. */
static hil_status add_conversation(struct pack *pack, const json_t *variables, bool last_only,
                                   int64_t line)
{
    const hil_dialogue *d = &pack->dialogue;
    size_t at = pack->example_size;
    HIL_TRY(name_record(pack, line, encode_conversation(pack, variables, last_only)));
    ++pack->conversations;
    HIL_TRY(add_marked(pack, d->ids.data, d->ids.size, HIL_MARK_NO_LOSS));
    for (size_t i = 0; i < d->rendering.span_count; ++i)
        for (size_t k = d->learned[i].begin; k < d->learned[i].end; ++k)
            pack->example[at + k] &= ~HIL_MARK_NO_LOSS;
    mark_start(pack, at);
    return HIL_OK;
}

static hil_status pack_pair(struct pack *pack, const hil_record *record, int64_t line)
{
    size_t size[2];
    hil_record worse = {.prompt = record->prompt,
                        .prompt_size = record->prompt_size,
                        .text = record->rejected,
                        .text_size = record->rejected_size};
    for (int i = 0; i < 2; ++i) {
        if (record->variables)
            HIL_TRY(add_conversation(pack, i ? record->worse : record->variables, false, line));
        else
            HIL_TRY(add_example(pack, i ? &worse : record));
        size[i] = pack->example_size - (i ? size[0] : 0);
    }
    return hil_windows_pair(pack->windows, pack->example, size);
}

static hil_status pack_tokens(struct pack *pack, hil_token_row row, int64_t line)
{
    HIL_TRY(name_record(pack, line, hil_token_row_check(&row, pack->options->vocab)));
    if (pack->options->answers == HIL_ANSWERS_ALL) hil_token_row_learn_all(&row);
    return hil_windows_example(pack->windows, row.token, row.size);
}

static hil_status pack_record(void *context, const hil_record *record, int64_t line)
{
    struct pack *pack = context;
    pack->example_size = 0;
    switch (record->kind) {
    case HIL_RECORD_PAIR:
        return pack_pair(pack, record, line);
    case HIL_RECORD_CONVERSATION:
        HIL_TRY(add_conversation(pack, record->variables, record->last_only, line));
        break;
    case HIL_RECORD_TOKENS:
        return pack_tokens(pack, record->row, line);
    case HIL_RECORD_EXAMPLE:
        HIL_TRY(add_example(pack, record));
        break;
    case HIL_RECORD_TEXT:
        pack->starting = true;
        return pack_string(pack, record->text, record->text_size);
    }
    if (record->judged)
        return hil_windows_judged(pack->windows, pack->example, pack->example_size, record->good);
    return hil_windows_example(pack->windows, pack->example, pack->example_size);
}

static hil_record_rules rules_of(struct pack *pack)
{
    const hil_dataset_options *o = pack->options;
    return (hil_record_rules){.format = o->format,
                              .chat = o->chat && hil_chat_template_exists(o->chat),
                              .labels = &pack->labels};
}

static void note_labels(const struct pack *pack)
{
    const hil_dataset_options *o = pack->options;
    char line[HIL_PATH_MAX + 128];
    if (!pack->labels || !o->note) return;
    snprintf(line, sizeof line,
             "%s: the \"label\" of a completion is ignored, good and bad ones are learned alike "
             "(--loss kto learns from labels)",
             pack->path);
    o->note(o->context, line);
}

static hil_status pack_table(struct pack *pack, uint64_t bytes)
{
    hil_table *table = NULL;
    const hil_record *record;
    hil_record_rules rules = rules_of(pack);
    hil_status status;
    HIL_TRY_DONE(hil_table_open(&table, pack->path, &rules));
    pack->unit = hil_table_unit(table);
    for (int64_t row = 1;; ++row) {
        int64_t number;
        HIL_TRY_DONE(hil_table_next(table, &record, &number));
        if (!record) break;
        HIL_TRY_DONE(pack_record(pack, record, number));
        if (row % ROWS_REPORTED != 0) continue;
        double share = hil_table_done(table);
        HIL_TRY_DONE(report(pack, (uint64_t)((share < 1 ? share : 1) * (double)bytes)));
    }
done:
    hil_table_close(table);
    return status;
}

static hil_status pack_jsonl(struct pack *pack, hil_jsonl_layout layout)
{
    hil_input *input = NULL;
    hil_jsonl jsonl = {.path = pack->path,
                       .line_max = HIL_JSONL_LINE_MAX,
                       .take = pack_record,
                       .context = pack,
                       .layout = layout,
                       .rules = rules_of(pack)};
    hil_status status;
    pack->unit = "line";
    HIL_TRY_DONE(hil_input_open(&input, pack->path));
    size_t got;
    do {
        HIL_TRY_DONE(hil_input_read(input, pack->piece, PIECE, &got));
        HIL_TRY_DONE(hil_jsonl_add(&jsonl, pack->piece, got));
        HIL_TRY_DONE(report(pack, hil_input_position(input)));
    } while (got == PIECE);
    HIL_TRY_DONE(hil_jsonl_end(&jsonl));
done:
    hil_jsonl_free(&jsonl);
    hil_input_close(input);
    return status;
}

static hil_status pack_npy(struct pack *pack, uint64_t bytes)
{
    hil_npy *npy = NULL;
    hil_status status;
    HIL_TRY_DONE(hil_npy_open(&npy, pack->path));
    int64_t count = hil_npy_count(npy);
    int64_t part;
    pack->starting = true;
    for (int64_t i = 0; i < count; i += part) {
        part = count - i < (int64_t)PIECE / 4 ? count - i : (int64_t)PIECE / 4;
        HIL_TRY_DONE(HIL_GROW(&pack->ids.data, &pack->ids.capacity, part));
        HIL_TRY_DONE(hil_npy_read(npy, i, part, pack->options->vocab, pack->ids.data));
        pack->ids.size = (size_t)part;
        HIL_TRY_DONE(flush_ids(pack, KIND_TOKENS));
        double share = (double)(i + part) / (double)count;
        HIL_TRY_DONE(report(pack, (uint64_t)(share * (double)bytes)));
    }
done:
    hil_npy_close(npy);
    return status;
}

static uint64_t file_size(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
}

static hil_status pack_file(struct pack *pack, hil_data_kind kind, uint64_t bytes)
{
    bool has_records = kind != HIL_DATA_TEXT && kind != HIL_DATA_TOKENS;
    hil_record_format format = pack->options->format;
    if ((format == HIL_FORMAT_PREFERENCE || format == HIL_FORMAT_JUDGED) && !has_records)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: this --loss compares answers, which are records of a .jsonl, .json, "
                        ".csv, .parquet or .arrow file with %s",
                        pack->path, hil_record_expected(format));
    switch (kind) {
    case HIL_DATA_TOKENS:
        return pack_npy(pack, bytes);
    case HIL_DATA_CSV:
    case HIL_DATA_TSV:
    case HIL_DATA_PARQUET:
    case HIL_DATA_ARROW:
        return pack_table(pack, bytes);
    case HIL_DATA_JSONL:
        return pack_jsonl(pack, HIL_JSONL_LINES);
    case HIL_DATA_JSON:
        return pack_jsonl(pack, HIL_JSONL_VALUES);
    case HIL_DATA_TEXT:
        break;
    }
    return pack_text(pack);
}

hil_status hil_pack_files(hil_cache_writer *writer, const char *const *paths, size_t count,
                          const hil_dataset_options *options, hil_packing *packing)
{
    struct pack pack = {.options = options, .before = KIND_TOKENS};
    hil_status status = HIL_OK;
    HIL_TRY_DONE(hil_windows_create(&pack.windows, writer, options->seq, options->eot));
    HIL_TRY_DONE(HIL_ALLOC(PIECE, &pack.piece));
    if (options->tokenizer) HIL_TRY_DONE(hil_encoder_create(&pack.encoder, options->tokenizer));
    for (size_t i = 0; i < count; ++i) pack.bytes_total += file_size(paths[i]);
    for (size_t i = 0; i < count; ++i) {
        uint64_t bytes = file_size(paths[i]);
        hil_file_type type;
        HIL_TRY_DONE(hil_file_type_read(&type, paths[i]));
        pack.path = paths[i];
        pack.position = 0;
        pack.labels = false;
        HIL_TRY_DONE(pack_file(&pack, type.kind, bytes));
        note_labels(&pack);
        pack.bytes_before += bytes;
    }
    HIL_TRY_DONE(hil_windows_end(pack.windows, packing));
    packing->conversations = pack.conversations;
done:
    hil_windows_destroy(pack.windows);
    hil_encoder_destroy(pack.encoder);
    hil_ids_free(&pack.ids);
    hil_ids_free(&pack.prompt);
    hil_chat_template_close(pack.chat);
    hil_dialogue_free(&pack.dialogue);
    hil_free(pack.example);
    hil_free(pack.piece);
    return status;
}
