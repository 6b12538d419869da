-- What comes before a step of a template, as ranges of places: all steps whose results it is handed. There is no row
-- for a step of which that is not known, because its ranges would be too many, or because it comes after the parts of a
-- batch: that is found from parent to parent.
create table {schema}.ancestry (
    template_id integer        not null references {schema}.template on delete cascade,
    ordinal     integer        not null,
    before      int4multirange not null,
    primary key (template_id, ordinal)
);
