/* config_read.h - reads the keys of a config.json: what the architectures share. */
#ifndef HIL_MODEL_CONFIG_CONFIG_READ_H
#define HIL_MODEL_CONFIG_CONFIG_READ_H

#include "base/json.h"
#include "model/config/config.h"

#define HIL_CONFIG_WIDTH_MAX ((int64_t)1 << 22)
#define HIL_CONFIG_HEADS_MAX ((int64_t)1 << 16)
#define HIL_CONFIG_POSITIONS_MAX ((int64_t)INT32_MAX)

/* The object that is read; `what` names its file in errors. Keys that are absent or null keep the
   config's values, which are the architecture's defaults. */
typedef struct hil_config_reader {
    const json_t *object;
    const char *what;
    hil_config *config;
} hil_config_reader;

hil_status hil_config_refuse(const hil_config_reader *r, const char *key, const char *why);
/* A whole number in [1, most]. An absent key keeps *out, and fails if that is 0. `other` is a
   second name of the key, for files that have only that; NULL: none. */
hil_status hil_config_size(const hil_config_reader *r, const char *key, const char *other,
                           int64_t most, int64_t *out);
/* A number in [least, most). NaN in *out: the key must be there. */
hil_status hil_config_real(const hil_config_reader *r, const char *key, double least, double most,
                           double *out);
hil_status hil_config_bool(const hil_config_reader *r, const char *key, bool *out);

/* A copy of the object in which the keys names[i][0] are there as names[i][1], too; the list ends
   with NULL. The caller releases it. Refuses keys that are there under both names, and differ. */
hil_status hil_config_rename(const hil_config_reader *r, const char *const names[][2],
                             json_t **out);

/* Refuses a key that is true. */
hil_status hil_config_refuse_flag(const hil_config_reader *r, const char *key);
/* Refuses a number other than 0. */
hil_status hil_config_refuse_number(const hil_config_reader *r, const char *key);

/* The sizes under their usual keys. With `must_divide` the heads divide the hidden size even where
   head_dim is given. */
hil_status hil_config_sizes(const hil_config_reader *r, bool must_divide);
/* Keys of sizes, each with a second name or NULL: those of the first decoders differ. */
typedef struct hil_config_size_keys {
    const char *hidden[2], *layers[2], *heads[2], *positions[2], *intermediate[2];
} hil_config_size_keys;
/* The sizes under these keys. Each head has keys and values of its own, and all together have the
   hidden size; an absent intermediate size is four times that. */
hil_status hil_config_sizes_under(const hil_config_reader *r, const hil_config_size_keys *keys);
/* Refuses sizes whose product overflows. `positions` are learned ones. */
hil_status hil_config_check_sizes(const hil_config_reader *r, int64_t positions);
/* The norm's epsilon under `eps`, attention_dropout, tie_word_embeddings. */
hil_status hil_config_numbers(const hil_config_reader *r, const char *eps);
/* embd_pdrop and resid_pdrop. */
hil_status hil_config_dropouts(const hil_config_reader *r);
/* attention_bias: of all four projections. */
hil_status hil_config_attention_bias(const hil_config_reader *r);
/* The activation under `key`, one of `kinds` (a set of bits 1 << hil_activation); absent: the
   config's. */
hil_status hil_config_activation(const hil_config_reader *r, const char *key, unsigned kinds);
/* rope_theta, rope_scaling, rope_parameters. */
hil_status hil_config_rope(const hil_config_reader *r);
/* Whether rope_scaling or rope_parameters are there: else rope_theta is ignored by architectures
   that have a scaling by default, as in transformers. */
bool hil_config_has_rope(const hil_config_reader *r);
/* One more number of rope_scaling or rope_parameters, 0 or above. */
hil_status hil_config_rope_real(const hil_config_reader *r, const char *key, double *out);
/* As hil_config_rope, where layers with sliding attention have a rotary embedding of their own. */
hil_status hil_config_rope_by_type(const hil_config_reader *r);
/* The same of transformers 5 alone: rope_parameters has an object for each kind of layers that the
   model has; `part` of a head turns where they do not say. Absent: the config's. */
hil_status hil_config_rope_nested(const hil_config_reader *r, double part);
/* Refuses a part of a head, or factors of LongRoPE, that do not fit the config's heads. */
hil_status hil_config_check_rope(const hil_config_reader *r, const hil_rope_config *rope);
/* no_rope_layers: 0: the layer does not turn; absent or empty: every no_rope_layer_interval-th. */
hil_status hil_config_still(const hil_config_reader *r);
/* Names of the keys of state spaces; `expand` NULL: heads and their sizes are free; `inner` NULL:
   their product has no key. `out_bias` NULL: that of `bias`. */
typedef struct hil_mamba_keys {
    const char *heads, *head_dim, *expand, *inner, *groups, *states, *kernel;
    const char *kernel_bias, *bias, *out_bias;
} hil_mamba_keys;
extern const hil_mamba_keys hil_mamba_usual_keys; /* mamba_n_heads, ... */
/* These, and time_step_limit. Which layers have a state space is not among them. */
hil_status hil_config_mamba_sizes(const hil_config_reader *r, const hil_mamba_keys *keys);
/* A list of `count` numbers above 0; absent: all are as they were. */
hil_status hil_config_reals(const hil_config_reader *r, const char *key, int count, double *out);
/* The windows and rotary embeddings of Granite with sinks. */
hil_status hil_config_granite_windows(const hil_config_reader *r);
/* sliding_window, where `use` is true. */
hil_status hil_config_sliding_window(const hil_config_reader *r, bool use);
/* Layers from `first` on have the window, if there is one. */
void hil_config_slide_from(hil_config *config, int64_t first);
/* The keys of a mixture; `experts` is the key of their number. The auxiliary loss is computed if
   output_router_logits is true. */
hil_status hil_config_mixture(const hil_config_reader *r, const char *experts);
/* Refuses more experts than a mixture may have, or than it has. */
hil_status hil_config_check_mixture(const hil_config_reader *r);
/* The keys of a mixture of DeepSeek: groups of experts, experts that all tokens have, and layers
   without experts at the beginning; `shared` and `dense`: how many of both where keys are absent.
 */
hil_status hil_config_grouped_mixture(const hil_config_reader *r, int64_t shared, int64_t dense);
/* The same without how many experts there are, how many are chosen, and their width. */
hil_status hil_config_grouped(const hil_config_reader *r, int64_t shared, int64_t dense);
/* How many experts there are, under `key` or `other`, how many are chosen, and their width. */
hil_status hil_config_experts(const hil_config_reader *r, const char *key, const char *other);
/* n_group and topk_group. */
hil_status hil_config_groups(const hil_config_reader *r);
/* The keys of a mixture with `shared` experts that all tokens have, where their key is absent. */
hil_status hil_config_shared_mixture(const hil_config_reader *r, int64_t shared);
/* Sets the bits of the layers that a list names; absent: none. */
hil_status hil_config_layer_list(const hil_config_reader *r, const char *key, uint64_t *layers);
/* mlp_layer_types: which layers have experts; absent: those that have them so far. */
hil_status hil_config_mlp_types(const hil_config_reader *r);
/* The same for all layers but every `period`-th. */
void hil_config_slide_between(hil_config *config, int64_t period);
/* layer_types, which replace the layers that have the window so far; absent: those keep it. */
hil_status hil_config_layer_types(const hil_config_reader *r);
/* The method of quantization_config: nf4, int8 or fp8; absent or empty: none. Refuses others. */
hil_status hil_config_quant(const hil_config_reader *r);
/* Appends the quantization_config, as transformers writes it; `compute`: the model's dtype. */
hil_status hil_config_quant_write(hil_text *out, hil_quant quant, hil_dtype compute);

#endif
