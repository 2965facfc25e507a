/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A listing: the same rows as a table for people and as JSON for programs.
 *
 *     columns (static) -> rows, cell by cell -> text, or an array of objects
 *
 * A cell that was not set is "-" in the text and absent from its object. Texts may come from a
 * stranger: control characters never reach a terminal.
 */
#pragma once

#include <glib.h>

typedef enum {
    LODGE_CELL_TEXT,
    LODGE_CELL_NUMBER,
    LODGE_CELL_BYTES, /* shown as KiB, MiB … with three digits */
    LODGE_CELL_SPAN,  /* ns, shown as ns, µs, ms or s */
    LODGE_CELL_REAL,  /* shown to a tenth */
    LODGE_CELL_FLAG,  /* yes or no */
} LodgeCellKind;

typedef struct {
    const char *key;   /* of the object's member */
    const char *title; /* marked by N_(); NULL: the column is for programs only */
    LodgeCellKind kind;
} LodgeColumn;

typedef struct LodgeTable LodgeTable;

/** @columns stays the caller's, and in place. */
LodgeTable *lodge_table_new(const LodgeColumn *columns, guint count);
/** NULL is accepted. */
void lodge_table_free(LodgeTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LodgeTable, lodge_table_free)

/** Begin a row: cells are set in the last one. */
void lodge_table_add_row(LodgeTable *table);

/** @text is copied; NULL leaves the cell unset. */
void lodge_table_set_text(LodgeTable *table, guint column, const char *text);
/** For NUMBER, BYTES, SPAN and FLAG. */
void lodge_table_set_number(LodgeTable *table, guint column, guint64 number);
/** For REAL. */
void lodge_table_set_real(LodgeTable *table, guint column, gdouble real);

/** Put the rows into the order of a cell: the greatest first. Equal ones stay as they were. */
void lodge_table_sort(LodgeTable *table, guint column);

/**
 * Lay out in columns, numbers to the right.
 *
 * @most  rows to show, and a line that says how many more there are; 0: all.
 *
 * Returns lines, each with its end. Free with g_free().
 */
char *lodge_table_to_text(const LodgeTable *table, guint most);
/** One row, below each other: "Memory: 8.00 GiB"; cells that are not set are left out. */
char *lodge_table_to_fields(const LodgeTable *table);
/** An array of objects, and a line end. Free with g_free(). */
char *lodge_table_to_json(const LodgeTable *table);
