/* The tables of a plan: bytes of classes add up, peaks are printed with budgets, and the advice
   fits the bottleneck. */
#include "check.h"
#include "plan/plan_print.h"
#include "plan/plan_report.h"

static const hil_outline_unit units[] = {
    {.name = "a",
     .elements = 1 << 20,
     .bytes = {2 << 20, 2 << 20, 4 << 20, 4 << 20, 2 << 20},
     .uses = 1},
    {.name = "b",
     .elements = 1 << 20,
     .bytes = {2 << 20, 2 << 20, 4 << 20, 4 << 20, 2 << 20},
     .uses = 2},
};
static const hil_outline_segment segments[] = {
    {.name = "embed"}, {.name = "block"}, {.name = "head"}};
static const hil_outline outline = {
    .unit = units, .units = 2, .segment = segments, .segments = 3, .micros = 4, .training = true};

static hil_text text;

static const char *shown(const hil_plan *plan,
                         hil_status (*print)(const hil_plan_report *, hil_text *))
{
    hil_plan_report report;
    hil_machine machine;
    hil_machine_assume(&(hil_probe_options){0}, NULL, &machine);
    machine.measured = true;
    hil_plan_view view = {.outline = &outline, .plan = plan, .machine = &machine};
    view.dtype = HIL_BF16;
    view.dense = (hil_dense){12, 768, 12, 8, 1024, 1, 0, 14, 2, 13, 2}; /* sizes, bytes */
    hil_text_free(&text);
    text = (hil_text){0};
    hil_plan_report_fill(&view, &report);
    CHECK_OK(print(&report, &text));
    return text.data;
}

static void expect(const char *words)
{
    if (strstr(text.data, words)) return;
    fprintf(stderr, "%s", text.data);
    check_die(__FILE__, __LINE__, words);
}

static void check_ranks(hil_plan *p)
{
    p->ranks = 4;
    p->by_segment = true;
    p->gathered = 5 << 20;
    p->reduced = 7 << 20;
    p->busy[HIL_LINK_GATHER] = p->busy[HIL_LINK_REDUCE] = 0.5;
    p->wait[HIL_WAIT_WEIGHTS] = 0.5;
    shown(p, hil_plan_print_all);
    expect("ranks: 4; each holds 1/4 of every state");
    expect("--zero 3: a rank's device holds the weights and gradients of one layer");
    expect("5.0 MiB of weights gathered, 7.0 MiB of gradients reduced");
    expect("moved per step: nothing\n");
    expect("the network is busy for 1.00 s; limited by: network\n");
    expect("faster: a larger --batch uses each gathered weight longer; more --device-memory");
    shown(p, hil_plan_print_short);
    expect("plan for each of 4 ranks: weights and optimizer states device");
    p->ranks = 1;
    p->busy[HIL_LINK_GATHER] = p->busy[HIL_LINK_REDUCE] = p->wait[HIL_WAIT_WEIGHTS] = 0;
}

int main(void)
{
    hil_plan p;
    CHECK_OK(hil_plan_create(&p, &outline));
    p.device_budget = 64 << 20;
    p.host_budget = 32 << 20;
    p.group = 4;
    p.chunk = 4096;
    p.slots = 2;
    p.spill = HIL_HOST;
    p.window = 3 << 20;
    p.work = 5 << 20;
    p.step_seconds = 2;
    p.compute_seconds = 1.9;
    for (int i = 0; i < 3; ++i) p.segment[i].keep = 4;
    p.peak[HIL_DEVICE] = 38 << 20;
    shown(&p, hil_plan_print_all);
    expect("weights                               4.0 MiB            -            -");
    expect("gradients                             6.0 MiB            -            -");
    expect("peak                                 38.0 MiB            -            -");
    expect("budget                               64.0 MiB     32.0 MiB            -");
    expect("activations: of 3 segments (embedding, layers, head) x 4 micro-batches: 12 keep all "
           "activations, 0 recompute");
    expect("moved per step: nothing\n");
    expect("limited by: compute\n");
    expect("faster: only a faster processor");
    expect("14 bytes per parameter");
    expect("weights and gradients            8192"); /* seq * batch */
    expect("optimizer states                 2521"); /* 8 * 8192 / (2 * 13) */
    expect("activation checkpoints          18432"); /* 24 hidden */

    check_ranks(&p);
    p.unit[1].tier[HIL_STATE1] = p.unit[1].tier[HIL_STATE2] = HIL_DISK;
    p.unit[1].tier[HIL_WEIGHT] = HIL_HOST;
    p.segment[1] = (hil_segment_place){.keep = 2, .tier = HIL_HOST};
    p.to_device = 4 << 20;
    p.disk_read = p.disk_written = 8 << 20;
    p.update_seconds = 1.5;
    p.wait[HIL_WAIT_UPDATE] = 0.5;
    p.busy[HIL_LINK_READ] = 1.2;
    p.peak[HIL_DISK] = 8 << 20;
    shown(&p, hil_plan_print_all);
    expect("weights                               2.0 MiB      2.0 MiB            -");
    expect("first moments                         4.0 MiB            -      4.0 MiB");
    expect("10 keep all activations, 0 recompute the cheap ones, 2 recompute everything; outputs "
           "of 1 segments are offloaded to host\n");
    expect("4.0 MiB host to device, 0 B device to host, 8.0 MiB read from disk, 8.0 MiB written");
    expect("waiting 0.50 s (0.50 s for the update); limited by: disk\n");
    expect("more --host-memory keeps up to 8.0 MiB off it");
    shown(&p, hil_plan_print_short);
    expect(
        "plan: weights and optimizer states device 20.0 MiB host 2.0 MiB disk 8.0 MiB; peak memory "
        "device 38.0 MiB disk");
    expect("; a step takes about 2.00 s");

    p.busy[HIL_LINK_UPDATE] = 1.4;
    shown(&p, hil_plan_print_all);
    expect("faster: a larger --batch hides the update");
    p.wait[HIL_WAIT_UPDATE] = 0;
    p.wait[HIL_WAIT_WEIGHTS] = 1;
    p.busy[HIL_LINK_IN] = 1;
    shown(&p, hil_plan_print_all);
    expect("faster: 2.0 MiB more of --device-memory keep all weights there");
    p.wait[HIL_WAIT_WEIGHTS] = 0;
    shown(&p, hil_plan_print_all);
    expect("faster: more --device-memory keeps more activations: 17% of the layers recompute them");
    p.segment[1].lean = 1;
    shown(&p, hil_plan_print_all);
    expect("10 keep all activations, 1 recompute the cheap ones, 1 recompute everything;");
    expect("activations: 8% of the layers");
    p.segment[1].lean = 4;
    shown(&p, hil_plan_print_all);
    expect("10 keep all activations, 2 recompute the cheap ones, 0 recompute everything;");
    expect("faster: only a faster processor");
    p.segment[1].tapes = HIL_HOST;
    shown(&p, hil_plan_print_all);
    expect("0 recompute everything; 4 keep them on host; outputs of 1 segments");
    hil_text_free(&text);
    hil_plan_free(&p);
    return 0;
}
