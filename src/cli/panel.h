/* panel.h - a run as a few lines of a terminal that are drawn again and again. */
#ifndef HIL_CLI_PANEL_H
#define HIL_CLI_PANEL_H

#include "hilbert/run.h"

enum { HIL_PANEL_RECENT = 512 };

typedef struct hil_panel {
    FILE *out;
    bool color, blocks;              /* blocks: the terminal shows Unicode */
    int drawn;                       /* lines now on the terminal */
    double recent[HIL_PANEL_RECENT]; /* losses, thinned: each is the mean of `width` steps */
    size_t count;
    int64_t width, summed; /* summed: steps in `sum`, which becomes the next loss */
    double sum, lowest;
    double eval_loss; /* NaN: none yet */
} hil_panel;

/* Prepares a panel on the terminal `out`. False: there is no room for one, or the terminal cannot
   move its cursor. */
bool hil_panel_begin(hil_panel *panel, FILE *out);
/* Forgets all losses. */
void hil_panel_forget(hil_panel *panel);
/* Adds a step to the curve of the loss. */
void hil_panel_add(hil_panel *panel, double loss);
/* Draws the panel over the last one; `state` stands beside the step, if it is not NULL. */
void hil_panel_draw(hil_panel *panel, const hil_step_report *report, const char *state);
/* Clears what is drawn. */
void hil_panel_clear(hil_panel *panel);

/* Of a terminal; 0: unknown. */
int hil_panel_columns(FILE *out);

#endif
