/* Descriptions of clusters: the shipped ones are read; speeds are a rank's part; errors name the
   key. */
#include "machine/cluster.h"
#include "check.h"

static const char good[] =
    "{\"name\": \"c\", \"nodes\": 4, \"gpus\": 8, \"gpu\": {\"memory_gib\": 32, "
    "\"tensor_tflops\": 100, \"fp32_tflops\": 10, \"memory_gb_s\": 1000, "
    "\"bus_gb_s\": 10}, \"bus_gb_s\": 40, \"ram_gib\": 64, \"ram_gb_s\": 260, "
    "\"drives\": {\"count\": 4, \"gb\": 1000, \"read_gb_s\": 6, \"write_gb_s\": 2}, "
    "\"network\": {\"inside_gb_s\": 100, \"between_gb_s\": 25, \"inside_us\": 2, "
    "\"between_us\": 10}}";

static void refuse(const char *text, const char *words)
{
    hil_cluster c;
    CHECK_FAILS(hil_cluster_parse(&c, text, strlen(text), "file"), HIL_ERR_INPUT, words);
}

static void check_speeds(void)
{
    hil_cluster c, twice;
    hil_machine m = {0};
    CHECK_OK(hil_cluster_parse(&c, good, strlen(good), "file"));
    hil_cluster_speeds(&c, &m);
    CHECK_NEAR(m.speeds.to_device, 5e9, 1);          /* 40 GB/s for 8, less than 8 alone */
    CHECK_NEAR(m.speeds.disk_read, 3e9, 1);          /* 4 x 6 GB/s for 8 */
    CHECK_NEAR(m.speeds.network, 25e9, 1);           /* between nodes */
    CHECK_NEAR(m.speeds.network_call, 26e-6, 1e-12); /* 3 hops inside, 2 between */
    CHECK_NEAR(m.speeds.update, 0.7 * 260e9 / 26 / 8, 1);
    hil_cluster_double(&c, HIL_CLUSTER_NETWORK, &twice);
    hil_cluster_speeds(&twice, &m);
    CHECK_NEAR(m.speeds.network, 50e9, 1);
    hil_cluster_double(&c, HIL_CLUSTER_BUS, &twice);
    hil_cluster_speeds(&twice, &m);
    CHECK_NEAR(m.speeds.to_device, 10e9, 1);
    c.nodes = 1;
    hil_cluster_speeds(&c, &m);
    CHECK_NEAR(m.speeds.network, 100e9, 1); /* inside the only node */
}

/* Printed and read again it gives the same speeds and room. */
static void check_printed(const hil_cluster *c)
{
    hil_cluster again;
    hil_machine m = {0}, n = {0};
    char *printed = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&printed, &size);
    CHECK_OK(hil_cluster_print(c, out));
    fclose(out);
    CHECK_OK(hil_cluster_parse(&again, printed, size, "printed"));
    hil_cluster_speeds(c, &m);
    hil_cluster_speeds(&again, &n);
    CHECK(memcmp(&m.speeds, &n.speeds, sizeof m.speeds) == 0);
    CHECK(c->ram == again.ram && c->drive_bytes == again.drive_bytes && c->drives == again.drives);
    free(printed);
}

/* A GPU with the speeds of attention and of small operations that were measured on it. */
static void check_measured_gpu(void)
{
#define GPU_OF(more)                                                                               \
    "{\"name\": \"c\", \"gpu\": {\"name\": \"x\", \"memory_gib\": 8, \"tensor_tflops\": 100, "     \
    "\"fp32_tflops\": 10, \"memory_gb_s\": 1000, \"bus_gb_s\": 20" more                            \
    "}, \"bus_gb_s\": 20, \"ram_gib\": 64, \"ram_gb_s\": 52}"
    static const char usual[] = GPU_OF(""), own[] = GPU_OF(", \"fp8_tflops\": 200, "
                                                           "\"attention_tflops\": 45, "
                                                           "\"call_us\": 3.25");
    hil_cluster c, twice;
    hil_machine m = {0};
    CHECK_OK(hil_cluster_parse(&c, usual, strlen(usual), "file"));
    hil_cluster_speeds(&c, &m);
    CHECK_NEAR(m.speeds.attention[1], 35e12, 1);
    CHECK_NEAR(m.speeds.op_call, 5e-6, 1e-12);
    check_printed(&c);
    CHECK_OK(hil_cluster_parse(&c, own, strlen(own), "file"));
    hil_cluster_speeds(&c, &m);
    CHECK_NEAR(m.speeds.attention[1], 45e12, 1);
    CHECK_NEAR(m.speeds.attention[2], 45e12, 1);
    CHECK_NEAR(m.speeds.gemm_fp8, 140e12, 1);
    CHECK_NEAR(m.speeds.op_call, 3.25e-6, 1e-12);
    check_printed(&c);
    hil_cluster_double(&c, HIL_CLUSTER_GPU_SPEED, &twice);
    hil_cluster_speeds(&twice, &m);
    CHECK_NEAR(m.speeds.attention[1], 90e12, 1);
    refuse(GPU_OF(", \"call_us\": -1"), "gpu.call_us must be a number from 0");
}

/* A node whose CPU computes. */
static void check_cpu(void)
{
    static const char text[] =
        "{\"name\": \"c\", \"cpu\": {\"name\": \"x\", \"fp32_tflops\": 0.5, \"bf16_tflops\": 2, "
        "\"attention_tflops\": 0.25, \"memory_gb_s\": 40, \"call_us\": 20}, \"bus_gb_s\": 10, "
        "\"ram_gib\": 64, \"ram_gb_s\": 52, "
        "\"drives\": {\"count\": 2, \"gb\": 1000, \"read_gb_s\": 6, \"write_gb_s\": 2}}";
    hil_cluster c, again;
    hil_machine m = {0}, n = {0};
    CHECK_OK(hil_cluster_parse(&c, text, strlen(text), "file"));
    hil_cluster_speeds(&c, &m);
    CHECK_NEAR(m.speeds.gemm[0], 5e11, 1);
    CHECK_NEAR(m.speeds.gemm[1], 2e12, 1);
    CHECK_NEAR(m.speeds.to_device, 1e10, 1);
    CHECK_NEAR(m.speeds.update, 0.7 * 2e9, 1);
    CHECK_NEAR(m.speeds.update_device, 0, 0);
    check_printed(&c);
    c.cpu.update_8bit = 2e8;
    hil_cluster_double(&c, HIL_CLUSTER_GPU_SPEED, &again);
    hil_cluster_speeds(&again, &n);
    CHECK_NEAR(n.speeds.gemm[0], 1e12, 1);
    CHECK_NEAR(n.speeds.update_8bit, 4e8, 1); /* the cores limit it, not RAM as the other update */
    CHECK_NEAR(n.speeds.update, m.speeds.update, 1);
    hil_cluster_double(&c, HIL_CLUSTER_RAM, &again);
    hil_cluster_speeds(&again, &n);
    CHECK_NEAR(n.speeds.update_8bit, 2e8, 1);
    CHECK_NEAR(n.speeds.update, 2 * m.speeds.update, 1);
#define CPU_OF(more)                                                                               \
    "{\"cpu\": {\"fp32_tflops\": 1, \"bf16_tflops\": 1, \"attention_tflops\": 1, "                 \
    "\"memory_gb_s\": 1, " more "}, \"ram_gib\": 64}"
    refuse(CPU_OF("\"cores\": 2.5"), "must be whole");
    refuse(CPU_OF("\"cached_gb_s\": 9"), "cached_gb_s needs cpu.cores");
    refuse(CPU_OF("\"cores\": 2, \"call_us\": 3, \"start_us\": 2"), "includes 2 x cpu.start_us");
    refuse("{\"cpu\": {}, \"gpu\": \"H100\", \"ram_gib\": 64}", "with cpu there is no gpu");
    refuse("{\"cpu\": {}, \"ram_gib\": 64}", "cpu.fp32_tflops must be");
    refuse("{\"cpu\": {}, \"ram_gib\": 64, \"gpus\": 2}", "gpus must be 1 where a cpu computes");
}

int main(void)
{
    static const char *const shipped[] = {"dgx-2",    "dgx-h100", "dgx-h200",    "gh200",
                                          "rtx-3090", "rtx-4060", "rtx-4060-ti", "rtx-4070",
                                          "rtx-4090", "laptop"};
    for (size_t i = 0; i < sizeof shipped / sizeof *shipped; ++i) {
        char path[1024];
        hil_cluster c;
        snprintf(path, sizeof path, HIL_TESTS "/../clusters/%s.json", shipped[i]);
        CHECK_OK(hil_cluster_read(&c, path));
        CHECK(c.ram > 0 && c.drives > 0 && c.gpu.mib > 0);
    }
    check_speeds();
    check_measured_gpu();
    check_cpu();
    refuse("[]", "not a JSON object");
    refuse("{\"ram\": 4}", "did you mean \"ram_gib\"?");
    refuse("{\"gpu\": \"H100\", \"ram_gib\": -1}", "ram_gib must be a number from");
    refuse("{\"gpu\": 7, \"ram_gib\": 64}", "gpu must be the name of one");
    refuse("{\"gpu\": \"H100\", \"ram_gib\": 64, \"gpus\": 2}", "network.inside_gb_s");
    refuse("{\"gpu\": \"H100\", \"ram_gib\": 64, \"gpus\": 2.5}", "must be whole");
    refuse("{\"gpu\": {\"memory_gib\": 0.5}, \"ram_gib\": 64}", "gpu.memory_gib must be");
    refuse("{\"gpu\": \"H100\", \"ram_gib\": 64, \"drives\": {\"count\": 1}}", "drives.gb");
    refuse("{\"gpu\": \"H100\", \"ram_gib\": 64, \"layout\": {\"weights\": \"cpu\"}}",
           "layout.weights is \"cpu\", but may be \"gpu\" to \"drives\"");
    refuse("{\"gpu\": \"H100\", \"ram_gib\": 64, \"layout\": {\"model_parallel\": 2}}",
           "layout.model_parallel must divide");
    refuse("{\"gpu\": \"H100\", \"ram_gib\": 64, \"layout\": {\"efficiency\": 1.5}}",
           "layout.efficiency is a part: at most 1");
    refuse("{\"gpu\": \"H100\", \"ram_gib\": 64, \"layout\": true}", "layout must be an object");
    refuse("{\"gpu\": \"H100\", \"ram_gib\": 64, \"network\": 5}", "network must be an object");
    refuse("{\"gpu\": \"H100\", \"ram_gib\": 64, \"drives\": {\"count\": 1000, \"gb\": 1e8, "
           "\"read_gb_s\": 1, \"write_gb_s\": 1}}",
           "are more than 1e+09");
    return 0;
}
