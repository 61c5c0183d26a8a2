/* html.h - one or several runs as one HTML file that needs no network. */
#ifndef HIL_REPORT_HTML_H
#define HIL_REPORT_HTML_H

#include "report/history.h"

/* Writes the page in one piece: a reader sees the old one or the new one. */
hil_status hil_html_write(const hil_history *run, size_t count, const char *path);

#endif
