/* tokenize.c - encodes text to a JSON array of token ids, and decodes such arrays. */
#include "hilbert/run.h"
#include "data/input.h"
#include "data/file_type.h"
#include "io/file.h"
#include "run/conversation.h"
#include "run/conversation_show.h"
#include "run/model_source.h"
#include "base/sized.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define PIECE_BYTES ((size_t)1 << 16)

static hil_status open_tokenizer(hil_tokenizer **out, const char *path)
{
    char joined[HIL_PATH_MAX];
    struct stat info;
    *out = NULL;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        HIL_TRY(hil_path_join(joined, path, "tokenizer.json"));
        if (!hil_file_exists(joined)) return hil_source_no_tokenizer(path, "");
        path = joined;
    }
    return hil_tokenizer_open(out, path);
}

static hil_status check_output(FILE *out)
{
    if (!ferror(out)) return HIL_OK;
    return hil_fail(HIL_ERR_IO, "cannot write the output: %s", strerror(errno));
}

static hil_status check_input(FILE *in)
{
    if (!ferror(in)) return HIL_OK;
    return hil_fail(HIL_ERR_IO, "cannot read the input: %s", strerror(errno));
}

/* Source of the bytes: a data file (perhaps compressed), or a stream without conversion. */
typedef struct origin {
    hil_input *input;
    FILE *in;
    bool owned;
} origin;

static hil_status open_stream(origin *from, const char *file)
{
    from->in = fopen(file, "rb");
    if (!from->in) return hil_fail(HIL_ERR_IO, "cannot open %s: %s", file, strerror(errno));
    from->owned = true;
    return HIL_OK;
}

static hil_status open_origin(origin *from, const hil_tokenize_options *options, FILE *in)
{
    hil_file_type type;
    struct stat info;
    const char *file = options->file;
    *from = (origin){.in = in};
    if (!file) return HIL_OK;
    if (options->decode || stat(file, &info) != 0 || !S_ISREG(info.st_mode))
        return open_stream(from, file);
    HIL_TRY(hil_file_type_read(&type, file));
    if (type.kind == HIL_DATA_TOKENS)
        return hil_fail(HIL_ERR_INPUT, "%s has token ids already, by its name", file);
    if (hil_file_type_is_table(type.kind))
        return hil_fail(HIL_ERR_INPUT,
                        "%s is a table of records, not text; train and eval read it with --data",
                        file);
    return hil_input_open(&from->input, file);
}

static void close_origin(const origin *from)
{
    hil_input_close(from->input);
    if (from->owned) fclose(from->in);
}

/* *size is 0 only at the end of the input. */
static hil_status read_piece(const origin *from, char *piece, size_t *size)
{
    if (from->input) return hil_input_read(from->input, piece, PIECE_BYTES, size);
    *size = fread(piece, 1, PIECE_BYTES, from->in);
    return *size ? HIL_OK : check_input(from->in);
}

/* Prints the ids and empties the list. The opening bracket comes with the first id, so a failure
   before it prints nothing. */
static hil_status print_ids(FILE *out, hil_ids *ids, bool *first)
{
    for (size_t i = 0; i < ids->size; ++i) {
        fprintf(out, "%c%d", *first ? '[' : ',', (int)ids->data[i]);
        *first = false;
    }
    ids->size = 0;
    return check_output(out);
}

/* Without the post-processor, text is encoded in pieces, so memory does not grow with its length.
 */
static hil_status encode_stream(const hil_tokenizer *tokenizer, const origin *from, FILE *out)
{
    hil_status status = HIL_OK;
    hil_encoder *encoder = NULL;
    hil_ids ids = {0};
    char *piece = NULL;
    bool first = true;
    size_t size;
    HIL_TRY_DONE(hil_encoder_create(&encoder, tokenizer));
    HIL_TRY_DONE(HIL_ALLOC(PIECE_BYTES, &piece));
    do {
        HIL_TRY_DONE(read_piece(from, piece, &size));
        HIL_TRY_DONE(hil_encoder_add(encoder, piece, size, &ids));
        HIL_TRY_DONE(print_ids(out, &ids, &first));
    } while (size > 0);
    HIL_TRY_DONE(hil_encoder_end(encoder, &ids));
    HIL_TRY_DONE(print_ids(out, &ids, &first));
    fputs(first ? "[]\n" : "]\n", out);
done:
    hil_encoder_destroy(encoder);
    hil_ids_free(&ids);
    hil_free(piece);
    return status;
}

static hil_status encode_whole(const hil_tokenizer *tokenizer, const origin *from, FILE *out)
{
    hil_status status = HIL_OK;
    hil_text text = {0};
    hil_ids ids = {0};
    char *piece = NULL;
    bool first = true;
    size_t size;
    HIL_TRY_DONE(HIL_ALLOC(PIECE_BYTES, &piece));
    do {
        HIL_TRY_DONE(read_piece(from, piece, &size));
        HIL_TRY_DONE(hil_text_add(&text, piece, size));
    } while (size > 0);
    HIL_TRY_DONE(hil_tokenizer_encode(tokenizer, text.data ? text.data : "", text.size,
                                      HIL_SPECIAL_ADD, &ids));
    HIL_TRY_DONE(print_ids(out, &ids, &first));
    fputs(first ? "[]\n" : "]\n", out);
done:
    hil_text_free(&text);
    hil_ids_free(&ids);
    hil_free(piece);
    return status;
}

static int skip_space(FILE *in)
{
    int c;
    do c = getc(in);
    while (c == ' ' || c == '\t' || c == '\n' || c == '\r');
    return c;
}

static hil_status bad_array(FILE *in, size_t place)
{
    HIL_TRY(check_input(in));
    return hil_fail(HIL_ERR_INPUT, "the input is not a JSON array of token ids (after %zu of them)",
                    place);
}

static hil_status check_id(int64_t id, size_t place, int64_t vocab)
{
    if (id >= 0 && id < vocab) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "token id %lld (number %zu) is outside the vocabulary of %lld",
                    (long long)id, place + 1, (long long)vocab);
}

/* Reads "[1, 2, 3]" number by number: memory is 4 bytes per id, with no JSON tree. */
static hil_status read_ids(FILE *in, int64_t vocab, hil_ids *ids)
{
    if (skip_space(in) != '[') return bad_array(in, 0);
    int c = skip_space(in);
    while (c != ']') {
        int64_t id = 0;
        int digits = 0, leading = c;
        for (; c >= '0' && c <= '9' && digits < 12; ++digits, c = getc(in))
            id = id * 10 + (c - '0');
        if (digits == 0 || (leading == '0' && digits > 1)) return bad_array(in, ids->size);
        HIL_TRY(check_id(id, ids->size, vocab));
        HIL_TRY(hil_ids_add(ids, (int32_t)id));
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r') c = skip_space(in);
        if (c == ']') break;
        if (c != ',') return bad_array(in, ids->size);
        c = skip_space(in);
        if (c == ']') return bad_array(in, ids->size);
    }
    return skip_space(in) == EOF ? check_input(in) : bad_array(in, ids->size);
}

static hil_status decode(const hil_tokenizer *tokenizer, hil_special special, FILE *in, FILE *out)
{
    hil_status status = HIL_OK;
    hil_text text = {0};
    hil_ids ids = {0};
    HIL_TRY_DONE(read_ids(in, hil_tokenizer_vocab(tokenizer), &ids));
    HIL_TRY_DONE(hil_tokenizer_decode(tokenizer, ids.data, ids.size, special, &text));
    if (text.size) fwrite(text.data, 1, text.size, out);
done:
    hil_text_free(&text);
    hil_ids_free(&ids);
    return status;
}

static hil_special special_of(const hil_tokenize_options *options)
{
    return options->special ? HIL_SPECIAL_ADD : HIL_SPECIAL_NONE;
}

static hil_status convert(const hil_tokenizer *tokenizer, const hil_tokenize_options *options,
                          const origin *from, FILE *out)
{
    if (options->decode) return decode(tokenizer, special_of(options), from->in, out);
    return options->special ? encode_whole(tokenizer, from, out)
                            : encode_stream(tokenizer, from, out);
}

/* Prints the ids of a conversation. The template has added the special tokens, so none are added.
 */
static hil_status encode_messages(const hil_tokenize_options *options, const hil_text *text,
                                  FILE *out)
{
    hil_tokenizer *tokenizer = NULL;
    hil_ids ids = {0};
    bool first = true;
    hil_status status;
    HIL_TRY_DONE(open_tokenizer(&tokenizer, options->model));
    HIL_TRY_DONE(hil_tokenizer_encode(tokenizer, text->data, text->size, HIL_SPECIAL_NONE, &ids));
    HIL_TRY_DONE(print_ids(out, &ids, &first));
    fputs(first ? "[]\n" : "]\n", out);
done:
    hil_ids_free(&ids);
    hil_tokenizer_close(tokenizer);
    return status;
}

static hil_status show_mask(const hil_tokenize_options *options, FILE *out)
{
    hil_tokenizer *tokenizer;
    HIL_TRY(open_tokenizer(&tokenizer, options->model));
    hil_status status = hil_conversation_show(options, tokenizer, out);
    hil_tokenizer_close(tokenizer);
    return status;
}

static hil_status tokenize_messages(const hil_tokenize_options *options, FILE *out)
{
    hil_rendering rendering = {0};
    hil_status status;
    if (options->file || options->decode || options->special)
        return hil_fail(HIL_ERR_USAGE,
                        "--messages does not go together with --file, --decode or --special");
    if (options->show_mask && (options->render || options->generation_prompt))
        return hil_fail(HIL_ERR_USAGE,
                        "--show-mask does not go together with --render or --generation-prompt");
    if (options->show_mask) return show_mask(options, out);
    HIL_TRY_DONE(hil_conversation_render(options->model, options->messages,
                                         options->generation_prompt, &rendering));
    if (!options->render)
        status = encode_messages(options, &rendering.text, out);
    else if (rendering.text.size)
        fwrite(rendering.text.data, 1, rendering.text.size, out);
done:
    hil_rendering_free(&rendering);
    return status;
}

static hil_status tokenize_text(const hil_tokenize_options *options, FILE *in, FILE *out)
{
    hil_tokenizer *tokenizer;
    origin from;
    if (options->render || options->generation_prompt || options->show_mask)
        return hil_fail(HIL_ERR_USAGE,
                        "--render, --generation-prompt and --show-mask need --messages");
    HIL_TRY(open_tokenizer(&tokenizer, options->model));
    hil_status status = open_origin(&from, options, in);
    if (status == HIL_OK) {
        status = convert(tokenizer, options, &from, out);
        close_origin(&from);
    }
    hil_tokenizer_close(tokenizer);
    return status;
}

void hil_tokenize_defaults_sized(hil_tokenize_options *options, size_t size)
{
    const hil_tokenize_options defaults = {.format = "auto", .train_on = "assistant"};
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

hil_status hil_tokenize(const hil_tokenize_options *options, FILE *in, FILE *out)
{
    hil_tokenize_options own;
    HIL_TRY(HIL_SIZED_TAKE(hil_tokenize, &own, options));
    hil_status status = own.messages ? tokenize_messages(&own, out) : tokenize_text(&own, in, out);
    if (status == HIL_OK && fflush(out) != 0)
        status = hil_fail(HIL_ERR_IO, "cannot write the output: %s", strerror(errno));
    return status;
}

/* Opens the tokenizer that the options name. The caller closes it, also after a failure. */
static hil_status begin_tokens(const hil_tokenize_options *options, hil_tokenize_options *own,
                               hil_tokenizer **tokenizer, hil_tokens *out)
{
    *out = (hil_tokens){0};
    *tokenizer = NULL;
    HIL_TRY(HIL_SIZED_TAKE(hil_tokenize, own, options));
    return open_tokenizer(tokenizer, own->model);
}

hil_status hil_tokens_encode(const hil_tokenize_options *options, const char *text, size_t bytes,
                             hil_tokens *out)
{
    hil_tokenize_options own;
    hil_tokenizer *tokenizer;
    hil_ids ids = {0};
    hil_status status = begin_tokens(options, &own, &tokenizer, out);
    if (status == HIL_OK)
        status = hil_tokenizer_encode(tokenizer, text, bytes, special_of(&own), &ids);
    if (status == HIL_OK)
        *out = (hil_tokens){.id = ids.data, .count = ids.size};
    else
        hil_ids_free(&ids);
    hil_tokenizer_close(tokenizer);
    return status;
}

static hil_status decode_ids(const hil_tokenizer *tokenizer, hil_special special, const int32_t *id,
                             size_t count, hil_text *text)
{
    for (size_t i = 0; i < count; ++i) HIL_TRY(check_id(id[i], i, hil_tokenizer_vocab(tokenizer)));
    HIL_TRY(hil_text_add(text, "", 0));
    return hil_tokenizer_decode(tokenizer, id, count, special, text);
}

hil_status hil_tokens_decode(const hil_tokenize_options *options, const int32_t *id, size_t count,
                             hil_tokens *out)
{
    hil_tokenize_options own;
    hil_tokenizer *tokenizer;
    hil_text text = {0};
    hil_status status = begin_tokens(options, &own, &tokenizer, out);
    if (status == HIL_OK) status = decode_ids(tokenizer, special_of(&own), id, count, &text);
    if (status == HIL_OK)
        *out = (hil_tokens){.text = text.data, .bytes = text.size};
    else
        hil_text_free(&text);
    hil_tokenizer_close(tokenizer);
    return status;
}

void hil_tokens_free(hil_tokens *tokens)
{
    hil_free(tokens->id);
    hil_free(tokens->text);
    *tokens = (hil_tokens){0};
}
