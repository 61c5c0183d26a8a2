/* gguf_model.c - names, shapes and order of a model's tensors in GGUF, and its hyperparameters. */
#include "format/gguf_model.h"

#include "base/alloc.h"
#include "io/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PIECE ((int64_t)1 << 20) /* elements converted at once */
#define NAME_BYTES 128

/* Values of general.file_type. */
enum { FILE_F32 = 0, FILE_F16 = 1, FILE_Q8_0 = 7, FILE_BF16 = 32 };

/* One tensor: its name in files of Hugging Face and in GGUF, in each block after the prefixes. */
typedef struct row {
    const char *from, *to;
    enum { PLAIN, QUERIES, KEYS, TURNED, POSITIONS } kind;
} row;

static const row llama_begin[] = {{"model.embed_tokens.weight", "token_embd.weight", PLAIN}};
static const row llama_block[] = {
    {"input_layernorm.weight", "attn_norm.weight", PLAIN},
    {"self_attn.q_proj.weight", "attn_q.weight", QUERIES},
    {"self_attn.q_proj.bias", "attn_q.bias", QUERIES},
    {"self_attn.k_proj.weight", "attn_k.weight", KEYS},
    {"self_attn.k_proj.bias", "attn_k.bias", KEYS},
    {"self_attn.v_proj.weight", "attn_v.weight", PLAIN},
    {"self_attn.v_proj.bias", "attn_v.bias", PLAIN},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", PLAIN},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", PLAIN},
    {"self_attn.o_proj.weight", "attn_output.weight", PLAIN},
    {"self_attn.o_proj.bias", "attn_output.bias", PLAIN},
    {"post_attention_layernorm.weight", "ffn_norm.weight", PLAIN},
    {"mlp.gate_proj.weight", "ffn_gate.weight", PLAIN},
    {"mlp.gate_proj.bias", "ffn_gate.bias", PLAIN},
    {"mlp.up_proj.weight", "ffn_up.weight", PLAIN},
    {"mlp.up_proj.bias", "ffn_up.bias", PLAIN},
    {"mlp.down_proj.weight", "ffn_down.weight", PLAIN},
    {"mlp.down_proj.bias", "ffn_down.bias", PLAIN},
};
static const row llama_end[] = {{"model.norm.weight", "output_norm.weight", PLAIN},
                                {"lm_head.weight", "output.weight", PLAIN}};
static const row gpt2_begin[] = {{"transformer.wte.weight", "token_embd.weight", PLAIN},
                                 {"transformer.wpe.weight", "position_embd.weight", POSITIONS}};
static const row gpt2_block[] = {
    {"ln_1.weight", "attn_norm.weight", PLAIN},
    {"ln_1.bias", "attn_norm.bias", PLAIN},
    {"attn.c_attn.weight", "attn_qkv.weight", TURNED},
    {"attn.c_attn.bias", "attn_qkv.bias", PLAIN},
    {"attn.c_proj.weight", "attn_output.weight", TURNED},
    {"attn.c_proj.bias", "attn_output.bias", PLAIN},
    {"ln_2.weight", "ffn_norm.weight", PLAIN},
    {"ln_2.bias", "ffn_norm.bias", PLAIN},
    {"mlp.c_fc.weight", "ffn_up.weight", TURNED},
    {"mlp.c_fc.bias", "ffn_up.bias", PLAIN},
    {"mlp.c_proj.weight", "ffn_down.weight", TURNED},
    {"mlp.c_proj.bias", "ffn_down.bias", PLAIN},
};
static const row gpt2_end[] = {{"transformer.ln_f.weight", "output_norm.weight", PLAIN},
                               {"transformer.ln_f.bias", "output_norm.bias", PLAIN},
                               {"lm_head.weight", "output.weight", PLAIN}};

/* A tensor of the file: rows of `cols` elements. */
typedef struct tensor {
    const hil_entry *entry;
    hil_dtype dtype; /* of the entry */
    hil_gguf_type type;
    int64_t rows, cols;
    int64_t heads; /* not 0: rows of each head are interleaved, see source_row */
    bool turned;   /* the entry is the transpose */
} tensor;

typedef struct writing {
    const hil_gguf_model *model;
    hil_gguf *file;
    tensor *tensor;
    size_t count, capacity;
    float *piece;
    void *raw, *out;
    int64_t room; /* elements of the three */
} writing;

static bool is_gpt2(const hil_config *config)
{
    return strcmp(config->arch->gguf, "gpt2") == 0;
}

static bool rotates_pairs(const hil_config *config)
{
    return strcmp(config->arch->gguf, "llama") == 0;
}

/* The architectures of llama.cpp have fewer variants than ours. */
static hil_status check_config(const hil_config *c)
{
    const char *what = NULL;
    if (!c->arch->gguf)
        return hil_fail(HIL_ERR_INPUT,
                        "the architecture %s cannot be exported to GGUF; convert_hf_to_gguf.py of "
                        "llama.cpp reads the model folder",
                        c->arch->name);
    if (c->rope.kind == HIL_ROPE_YARN || c->rope.kind == HIL_ROPE_LONG ||
        c->rope.kind == HIL_ROPE_PROPORTIONAL)
        return hil_fail(
            HIL_ERR_INPUT,
            "a model with YaRN, LongRoPE or proportional scaling cannot be exported to GGUF; "
            "convert_hf_to_gguf.py of llama.cpp reads the model folder");
    if (is_gpt2(c) && c->activation != HIL_GELU_TANH)
        what = "the activation gelu in GPT-2 (only gelu_new)";
    else if (c->scale_by_layer)
        what = "scale_attn_by_inverse_layer_idx";
    else if (c->rope.kind == HIL_ROPE_LLAMA3 && !rotates_pairs(c))
        what = "rope_type llama3 in this architecture";
    else if (c->mlp_bias && !is_gpt2(c) && !rotates_pairs(c))
        what = "mlp_bias in this architecture";
    if (!what) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "llama.cpp does not know %s: the model cannot be GGUF", what);
}

static hil_gguf_type type_of(const writing *w, const row *r, const tensor *t)
{
    if (t->entry->ndim < 2 || r->kind == POSITIONS) return HIL_GGUF_F32;
    hil_gguf_type type = w->model->type;
    return type == HIL_GGUF_Q8_0 && t->cols % HIL_GGUF_BLOCK ? HIL_GGUF_F16 : type;
}

static const hil_entry *find_entry(const hil_safetensors *weights, const char *name)
{
    static const char prefix[] = "transformer.";
    const hil_entry *entry = hil_safetensors_find(weights, name);
    if (entry || strncmp(name, prefix, sizeof prefix - 1) != 0) return entry;
    return hil_safetensors_find(weights, name + sizeof prefix - 1);
}

/* Declares the tensor if the weights have it: biases, the norms of heads and the head itself are
   absent in some models. */
static hil_status declare(writing *w, const row *r, const char *from, const char *to)
{
    const hil_config *c = w->model->config;
    hil_shape shape;
    if (c->tied && strcmp(from, "lm_head.weight") == 0) return HIL_OK;
    const hil_entry *entry = find_entry(w->model->weights, from);
    bool optional =
        hil_text_ends_with(from, "bias") || strstr(from, "q_norm") || strstr(from, "k_norm");
    if (!entry && optional) return HIL_OK;
    if (!entry) return hil_fail(HIL_ERR_INPUT, "the weights have no tensor %s", from);
    HIL_TRY(HIL_GROW(&w->tensor, &w->capacity, w->count + 1));
    tensor *t = &w->tensor[w->count++];
    *t = (tensor){.entry = entry, .turned = r->kind == TURNED && !w->model->masters};
    HIL_TRY(hil_entry_dtype(entry, &t->dtype));
    HIL_TRY(hil_entry_shape(entry, &shape));
    if (t->turned && shape.ndim != 2)
        return hil_fail(HIL_ERR_INPUT, "tensor %s is not a matrix", from);
    if (t->turned) shape = (hil_shape){2, {shape.dim[1], shape.dim[0]}};
    t->rows = hil_shape_rows(&shape);
    t->cols = hil_shape_cols(&shape);
    t->type = type_of(w, r, t);
    if (rotates_pairs(c) && r->kind == QUERIES) t->heads = c->heads;
    if (rotates_pairs(c) && r->kind == KEYS) t->heads = c->kv_heads;
    if (t->heads && shape.ndim == 1) {
        t->rows = t->cols;
        t->cols = 1;
    }
    if (t->heads && t->rows % (2 * t->heads))
        return hil_fail(HIL_ERR_INPUT, "tensor %s does not divide into %lld heads", from,
                        (long long)t->heads);
    return hil_gguf_declare(w->file, to, t->type, &shape);
}

static hil_status declare_rows(writing *w, const row *rows, size_t count, int64_t block)
{
    const char *prefix = is_gpt2(w->model->config) ? "transformer.h" : "model.layers";
    char from[NAME_BYTES], to[NAME_BYTES];
    for (size_t i = 0; i < count; ++i) {
        if (block < 0) {
            HIL_TRY(declare(w, &rows[i], rows[i].from, rows[i].to));
            continue;
        }
        snprintf(from, sizeof from, "%s.%lld.%s", prefix, (long long)block, rows[i].from);
        snprintf(to, sizeof to, "blk.%lld.%s", (long long)block, rows[i].to);
        HIL_TRY(declare(w, &rows[i], from, to));
    }
    return HIL_OK;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static hil_status declare_all(writing *w)
{
    const hil_config *c = w->model->config;
    bool gpt2 = is_gpt2(c);
    HIL_TRY(gpt2 ? declare_rows(w, gpt2_begin, COUNT(gpt2_begin), -1)
                 : declare_rows(w, llama_begin, COUNT(llama_begin), -1));
    for (int64_t n = 0; n < c->layers; ++n)
        HIL_TRY(gpt2 ? declare_rows(w, gpt2_block, COUNT(gpt2_block), n)
                     : declare_rows(w, llama_block, COUNT(llama_block), n));
    HIL_TRY(gpt2 ? declare_rows(w, gpt2_end, COUNT(gpt2_end), -1)
                 : declare_rows(w, llama_end, COUNT(llama_end), -1));
    if (c->rope.kind != HIL_ROPE_LLAMA3) return HIL_OK;
    return hil_gguf_declare(w->file, "rope_freqs.weight", HIL_GGUF_F32,
                            &(hil_shape){1, {c->head_dim / 2}});
}

/* What Llama 3 divides each frequency by. */
static void rope_factors(const hil_config *c, float *out)
{
    for (int64_t i = 0; i < c->head_dim / 2; ++i) {
        double frequency = pow(c->rope.theta, -2 * (double)i / (double)c->head_dim);
        double turns = (double)c->rope.original_positions * frequency / 6.283185307179586;
        double smooth = (turns - c->rope.low_freq) / (c->rope.high_freq - c->rope.low_freq);
        smooth = smooth < 0 ? 0 : smooth > 1 ? 1 : smooth;
        out[i] = (float)(1 / ((1 - smooth) / c->rope.factor + smooth));
    }
}

/* Hugging Face rotates element i of a head with i + dim / 2, llama.cpp the pair 2i and 2i + 1. */
static int64_t source_row(const tensor *t, int64_t r)
{
    if (!t->heads) return r;
    int64_t dim = t->rows / t->heads, within = r % dim;
    return r - within + within % 2 * (dim / 2) + within / 2;
}

static hil_status read_elements(writing *w, const tensor *t, int64_t first, int64_t count,
                                float *out)
{
    size_t each = hil_dtype_size(t->dtype);
    HIL_TRY(hil_entry_read(t->entry, (size_t)first * each, w->raw, (size_t)count * each));
    hil_dtype_to_f32(out, w->raw, t->dtype, count);
    return HIL_OK;
}

/* Rows [first, first + count) of the tensor as it is in GGUF, into w->piece. */
static hil_status read_rows(writing *w, const tensor *t, int64_t first, int64_t count)
{
    if (t->turned) {
        float *line = w->piece + count * t->cols;
        for (int64_t c = 0; c < t->cols; ++c) {
            HIL_TRY(read_elements(w, t, c * t->rows + first, count, line));
            for (int64_t r = 0; r < count; ++r) w->piece[r * t->cols + c] = line[r];
        }
        return HIL_OK;
    }
    if (!t->heads) return read_elements(w, t, first * t->cols, count * t->cols, w->piece);
    for (int64_t r = 0; r < count; ++r)
        HIL_TRY(read_elements(w, t, source_row(t, first + r) * t->cols, t->cols,
                              w->piece + r * t->cols));
    return HIL_OK;
}

static hil_status write_tensor(writing *w, const tensor *t, const hil_gguf_watch *watch)
{
    int64_t most = PIECE / t->cols > 0 ? PIECE / t->cols : 1;
    for (int64_t first = 0, count; first < t->rows; first += count) {
        count = t->rows - first < most ? t->rows - first : most;
        int64_t elements = count * t->cols;
        size_t bytes = hil_gguf_type_bytes(t->type, elements);
        HIL_TRY(read_rows(w, t, first, count));
        uint16_t *half = w->out;
        if (t->type == HIL_GGUF_BF16 && w->model->masters) /* the weights used in training */
            for (int64_t i = 0; i < elements; ++i) half[i] = hil_bf16_high(w->piece[i]);
        else
            hil_gguf_type_convert(t->type, w->out, w->piece, elements);
        HIL_TRY(hil_gguf_data(w->file, w->out, bytes));
        HIL_TRY(watch->wrote(watch->context, bytes));
    }
    return HIL_OK;
}

static hil_status write_data(writing *w, const hil_gguf_watch *watch)
{
    const hil_config *c = w->model->config;
    int64_t widest = c->head_dim;
    for (size_t i = 0; i < w->count; ++i)
        if (w->tensor[i].cols > widest) widest = w->tensor[i].cols;
    w->room = PIECE + 2 * widest;
    HIL_TRY(HIL_ALLOC(w->room + PIECE, &w->piece));
    HIL_TRY(hil_alloc((size_t)w->room, sizeof(float), &w->raw));
    HIL_TRY(hil_alloc((size_t)w->room, sizeof(float), &w->out));
    HIL_TRY(hil_gguf_begin(w->file));
    for (size_t i = 0; i < w->count; ++i) HIL_TRY(write_tensor(w, &w->tensor[i], watch));
    if (c->rope.kind == HIL_ROPE_LLAMA3) {
        rope_factors(c, w->piece);
        HIL_TRY(hil_gguf_data(w->file, w->piece, (size_t)(c->head_dim / 2) * sizeof(float)));
    }
    return hil_gguf_commit(w->file);
}

/* Sets ARCH.NAME. */
static hil_status set_number(writing *w, const char *name, int64_t value)
{
    char key[NAME_BYTES];
    snprintf(key, sizeof key, "%s.%s", w->model->config->arch->gguf, name);
    return hil_gguf_set_u32(w->file, key, value);
}

static hil_status set_real(writing *w, const char *name, double value)
{
    char key[NAME_BYTES];
    snprintf(key, sizeof key, "%s.%s", w->model->config->arch->gguf, name);
    return hil_gguf_set_f32(w->file, key, value);
}

static hil_status set_rope(writing *w)
{
    const hil_config *c = w->model->config;
    char key[NAME_BYTES];
    HIL_TRY(set_number(w, "attention.head_count_kv", c->kv_heads));
    HIL_TRY(set_number(w, "attention.key_length", c->head_dim));
    HIL_TRY(set_number(w, "attention.value_length", c->head_dim));
    HIL_TRY(set_real(w, "attention.layer_norm_rms_epsilon", c->norm_eps));
    HIL_TRY(set_number(w, "rope.dimension_count", c->head_dim));
    HIL_TRY(set_real(w, "rope.freq_base", c->rope.theta));
    if (c->rope.kind != HIL_ROPE_LINEAR) return HIL_OK;
    snprintf(key, sizeof key, "%s.rope.scaling.type", c->arch->gguf);
    HIL_TRY(hil_gguf_set_text(w->file, key, "linear", 6));
    return set_real(w, "rope.scaling.factor", c->rope.factor);
}

static hil_status set_values(writing *w)
{
    const hil_gguf_model *m = w->model;
    const hil_config *c = m->config;
    const char *arch = c->arch->gguf;
    int file_type = m->type == HIL_GGUF_F32    ? FILE_F32
                    : m->type == HIL_GGUF_F16  ? FILE_F16
                    : m->type == HIL_GGUF_BF16 ? FILE_BF16
                                               : FILE_Q8_0;
    HIL_TRY(hil_gguf_set_text(w->file, "general.architecture", arch, strlen(arch)));
    HIL_TRY(hil_gguf_set_text(w->file, "general.type", "model", 5));
    HIL_TRY(hil_gguf_set_text(w->file, "general.name", m->name, strlen(m->name)));
    HIL_TRY(hil_gguf_set_u32(w->file, "general.file_type", file_type));
    HIL_TRY(hil_gguf_set_u32(w->file, "general.quantization_version", 2));
    HIL_TRY(set_number(w, "vocab_size", c->vocab));
    HIL_TRY(set_number(w, "context_length", c->max_positions));
    HIL_TRY(set_number(w, "embedding_length", c->hidden));
    HIL_TRY(set_number(w, "block_count", c->layers));
    HIL_TRY(set_number(w, "feed_forward_length", c->intermediate));
    HIL_TRY(set_number(w, "attention.head_count", c->heads));
    HIL_TRY(is_gpt2(c) ? set_real(w, "attention.layer_norm_epsilon", c->norm_eps) : set_rope(w));
    return hil_gguf_model_vocab(m, w->file);
}

hil_status hil_gguf_model_write(const hil_gguf_model *model, const char *path,
                                const hil_gguf_watch *watch)
{
    writing w = {.model = model};
    hil_status status;
    HIL_TRY_DONE(check_config(model->config));
    HIL_TRY_DONE(hil_gguf_create(&w.file, path));
    HIL_TRY_DONE(set_values(&w));
    HIL_TRY_DONE(declare_all(&w));
    HIL_TRY_DONE(watch->begin(watch->context, hil_gguf_bytes(w.file), hil_gguf_count(w.file)));
    HIL_TRY_DONE(write_data(&w, watch));
done:
    hil_gguf_destroy(w.file);
    hil_free(w.tensor);
    hil_free(w.piece);
    hil_free(w.raw);
    hil_free(w.out);
    return status;
}
