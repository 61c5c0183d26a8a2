/* The keys of indexers. */
#include "config_keys.h"

static void check_indexers(void)
{
    static const char *const cases[][2] = {
        {",\"q_lora_rank\":null", "\"q_lora_rank\" must be a number"},
        {",\"rope_interleave\":false", "\"rope_interleave\" is false"},
        {",\"layer_types\":[\"full_attention\",\"indexed_attention\"]", "other entries than"},
        {",\"rope_parameters\":{\"type\":\"linear\",\"factor\":2,\"mscale_all_dim\":1}",
         "\"mscale_all_dim\" needs the type yarn"},
        {",\"index_topk\":0", "\"index_topk\" is 0"},
        {",\"index_head_dim\":62", "\"index_head_dim\" is below"},
        {",\"index_head_dim\":65536,\"index_n_heads\":65536", "times its heads is too large"},
        {",\"n_routed_experts\":16,\"num_experts\":8", "\"num_experts\" is there under another"},
        {",\"mlp_layer_types\":[\"dense\"]", "an entry per layer"},
    };
    hil_config c = parse_latent("deepseek_v32", "");
    CHECK_INT(hil_config_longest(&c), 2048);
    CHECK(strstr(hil_config_longest_why(&c), "index_topk") != NULL);
    CHECK_INT(c.indexer.heads, 64);
    CHECK_INT(c.mixture.dense[0], 3);
    CHECK_INT(c.mixture.groups, 8);
    CHECK_NEAR(c.mixture.scale, 2.5, 0);
    c = parse_latent("deepseek_v32", ",\"index_topk\":7,\"max_position_embeddings\":7,"
                                     "\"num_local_experts\":16");
    CHECK_INT(hil_config_longest(&c), 7);
    CHECK_TEXT(hil_config_longest_why(&c), "");
    CHECK_INT(c.mixture.experts, 16);
    CHECK_INT(hil_config_longest(&(hil_config){.max_positions = 9}), 9);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
        refuse_latent("deepseek_v32", cases[i][0], cases[i][1]);
}

int main(void)
{
    check_indexers();
    return 0;
}
