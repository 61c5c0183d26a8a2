/* panel.c - bars, a curve and the numbers of a step. */
#include "cli/panel.h"

#include "cli/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

enum { COLUMNS_LEAST = 60, ROWS_LEAST = 15, COLUMNS_MOST = 110, LABEL = 7 };

static struct winsize window(FILE *out)
{
    struct winsize size = {0};
    if (ioctl(fileno(out), TIOCGWINSZ, &size) != 0) size = (struct winsize){0};
    return size;
}

int hil_panel_columns(FILE *out)
{
    int columns = window(out).ws_col;
    return columns > 1 ? columns - 1 : 0;
}

/* Whether the locale of the terminal is UTF-8. */
static bool shows_unicode(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        const char *value = getenv(names[i]);
        if (value && *value) return strstr(value, "UTF-8") || strstr(value, "utf8");
    }
    return false;
}

bool hil_panel_begin(hil_panel *p, FILE *out)
{
    const char *term = getenv("TERM"), *plain = getenv("NO_COLOR");
    struct winsize size = window(out);
    *p = (hil_panel){.out = out, .color = !(plain && *plain), .blocks = shows_unicode()};
    hil_panel_forget(p);
    if (!term || !*term || strcmp(term, "dumb") == 0) return false;
    return size.ws_col >= COLUMNS_LEAST && size.ws_row >= ROWS_LEAST;
}

void hil_panel_forget(hil_panel *p)
{
    p->count = 0;
    p->width = 1;
    p->summed = 0;
    p->sum = 0;
    p->lowest = INFINITY;
    p->eval_loss = NAN;
}

void hil_panel_add(hil_panel *p, double loss)
{
    if (!isfinite(loss)) return;
    if (loss < p->lowest) p->lowest = loss;
    p->sum += loss;
    if (++p->summed < p->width) return;
    if (p->count == HIL_PANEL_RECENT) { /* halve the curve */
        for (size_t i = 0; i < HIL_PANEL_RECENT / 2; ++i)
            p->recent[i] = (p->recent[2 * i] + p->recent[2 * i + 1]) / 2;
        p->count = HIL_PANEL_RECENT / 2;
        p->width *= 2;
        return; /* the next loss is the mean of twice as many */
    }
    p->recent[p->count++] = p->sum / (double)p->summed;
    p->sum = 0;
    p->summed = 0;
}

static void end_line(hil_panel *p)
{
    fputs("\033[K\n", p->out);
    ++p->drawn;
}

static void start_color(const hil_panel *p)
{
    if (p->color) fputs("\033[36m", p->out);
}

static void end_color(const hil_panel *p)
{
    if (p->color) fputs("\033[0m", p->out);
}

static void draw_bar(hil_panel *p, double part, int cells)
{
    int full = (int)lround(fmin(1, fmax(0, part)) * cells);
    start_color(p);
    for (int i = 0; i < full; ++i) fputs(p->blocks ? "\u2588" : "#", p->out);
    end_color(p);
    for (int i = full; i < cells; ++i) fputs(p->blocks ? "\u2591" : ".", p->out);
}

/* The losses as a curve of `cells` characters; each is the mean of its part of them. */
static void draw_curve(hil_panel *p, int cells)
{
    static const char *const block[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                        "\u2585", "\u2586", "\u2587", "\u2588"};
    double cell[COLUMNS_MOST], low = INFINITY, high = -INFINITY;
    if (cells <= 0) return;
    size_t count = p->count < (size_t)cells ? p->count : (size_t)cells;
    for (size_t i = 0; i < count; ++i) {
        size_t from = i * p->count / count, to = (i + 1) * p->count / count;
        cell[i] = 0;
        for (size_t j = from; j < to; ++j) cell[i] += p->recent[j] / (double)(to - from);
        low = fmin(low, cell[i]);
        high = fmax(high, cell[i]);
    }
    start_color(p);
    for (size_t i = 0; i < count; ++i) {
        int level = high > low ? (int)((cell[i] - low) / (high - low) * 7.999) : 0;
        if (p->blocks)
            fputs(block[level], p->out);
        else
            fputc("_.-:=+*#"[level], p -> out);
    }
    end_color(p);
}

static void draw_steps(hil_panel *p, const hil_step_report *r, int columns, const char *state)
{
    char left[32], text[96];
    double part = r->steps ? (double)r->step / (double)r->steps : 0;
    int label = fprintf(p->out, "step %lld/%lld  ", (long long)r->step, (long long)r->steps);
    if (state)
        snprintf(text, sizeof text, "  %.0f%%  %s", 100 * part, state);
    else
        snprintf(text, sizeof text, "  %.0f%%  %s left", 100 * part,
                 hil_progress_time(left, r->seconds_left));
    int cells = columns - label - (int)strlen(text);
    draw_bar(p, part, cells < 5 ? 5 : cells > 40 ? 40 : cells);
    fputs(text, p->out);
    end_line(p);
}

static void draw_loss(hil_panel *p, const hil_step_report *r, int columns)
{
    char text[96];
    size_t used = (size_t)snprintf(text, sizeof text, "  lowest %.5g", p->lowest);
    if (!isnan(p->eval_loss))
        snprintf(text + used, sizeof text - used, "  eval %.5g", p->eval_loss);
    int label = fprintf(p->out, "loss %-9.5g ", r->loss);
    draw_curve(p, columns - label - (int)strlen(text));
    fputs(text, p->out);
    end_line(p);
}

static void draw_tier(hil_panel *p, const char *name, uint64_t peak, uint64_t budget)
{
    char a[32], b[32];
    if (!peak && !budget) return;
    fprintf(p->out, "%-*s", LABEL, name);
    if (budget) draw_bar(p, (double)peak / (double)budget, 30);
    fprintf(p->out, "%s%s", budget ? "  " : "", hil_progress_bytes(a, peak));
    if (budget) fprintf(p->out, "/%s", hil_progress_bytes(b, budget));
    end_line(p);
}

static void draw_speed(hil_panel *p, const hil_step_report *r, int columns)
{
    const hil_wait_seconds *w = &r->account.wait_seconds;
    const struct {
        const char *name;
        double seconds;
    } wait[] = {{"weights", w->weights},
                {"the update", w->update},
                {"activations", w->activations},
                {"gradients", w->gradients},
                {"memory", w->memory}};
    char count[32], time[32];
    double all = 0;
    size_t most = 0;
    for (size_t i = 0; i < sizeof wait / sizeof *wait; ++i) {
        all += wait[i].seconds;
        if (wait[i].seconds > wait[most].seconds) most = i;
    }
    char text[160];
    int used = snprintf(text, sizeof text, "%s tokens/s, a step %s",
                        hil_progress_count(count, llround(r->tokens_per_second)),
                        hil_progress_time(time, r->seconds));
    if (all > 0 && r->seconds > 0)
        snprintf(text + used, sizeof text - (size_t)used, ", waiting %.0f%%, most for %s",
                 100 * all / r->seconds, wait[most].name);
    fprintf(p->out, "%.*s", columns, text);
    end_line(p);
}

void hil_panel_draw(hil_panel *p, const hil_step_report *r, const char *state)
{
    int columns = hil_panel_columns(p->out);
    if (columns > COLUMNS_MOST) columns = COLUMNS_MOST;
    if (columns < COLUMNS_LEAST - 1) columns = COLUMNS_LEAST - 1;
    if (p->drawn) fprintf(p->out, "\033[%dA\r", p->drawn);
    p->drawn = 0;
    draw_steps(p, r, columns, state);
    draw_loss(p, r, columns);
    draw_tier(p, "device", r->account.device_peak, r->budget.device);
    draw_tier(p, "host", r->account.host_peak, r->budget.host);
    draw_tier(p, "disk", r->account.disk_peak, r->budget.disk);
    draw_speed(p, r, columns);
    fflush(p->out);
}

void hil_panel_clear(hil_panel *p)
{
    if (p->drawn) fprintf(p->out, "\033[%dA\r\033[J", p->drawn);
    p->drawn = 0;
    fflush(p->out);
}
