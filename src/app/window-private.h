/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the parts of the window share: the template, the list, and what is done to machines. */
#pragma once

#include "app/model/machine-verb.h"
#include "app/pages/machine-page.h"
#include "app/pages/selection-page.h"
#include "app/window.h"

struct _LodgeWindow {
    AdwApplicationWindow parent_instance;

    /* Owned. */
    GtkFilter *filter;
    GtkSorter *sorter;
    GSimpleActionGroup *machine_actions;
    GPtrArray *selected; /* of LodgeMachineItem; each is listened to */
    GPtrArray *deleting; /* of LodgeMachineItem that are hidden, and wait for the toast to go */
    char *needle;        /* that names are to hold, folded; NULL: any */
    int order;           /* of LodgeWindowOrder */
    guint show_source;   /* what is selected has changed: it is shown when all is quiet */

    /* Borrowed. */
    AdwToast *toast;
    LodgeConnectionItem *connection; /* selected alone; NULL: none */

    /* Of the template. */
    AdwToastOverlay *toasts;
    AdwLeaflet *leaflet;
    GtkListView *list;
    GtkMultiSelection *selection;
    GtkSearchBar *search_bar;
    GtkSearchEntry *search;
    GtkInfoBar *trouble;
    GtkLabel *trouble_text;
    GtkStack *content;
    AdwWindowTitle *title;
    LodgeMachinePage *machine_page;
    LodgeSelectionPage *selection_page;
    AdwStatusPage *empty, *connection_page;
    GtkMenuButton *jobs_button;
    GtkListBox *jobs;
};

typedef enum {
    LODGE_WINDOW_BY_NAME,
    LODGE_WINDOW_BY_STATE,
    LODGE_WINDOW_BY_CPU,
} LodgeWindowOrder;

/** The application that it belongs to; borrowed. */
LodgeApplication *lodge_window_get_application(LodgeWindow *window);

/* window-list.c: rows, search, order, selection. */
void lodge_window_list_init(LodgeWindow *window, GListModel *connections);
/** What is selected now: fills @window->selected and ->connection. */
void lodge_window_list_read_selection(LodgeWindow *window);

/* window-verbs.c: what is done to the selected machines. */
void lodge_window_verbs_init(LodgeWindow *window);
/** Which of them can be done has changed. */
void lodge_window_verbs_update(LodgeWindow *window);
/** Delete now those that wait for the toast to go. */
void lodge_window_verbs_finish(LodgeWindow *window);
