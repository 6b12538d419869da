/* change_namespace */
-- Changes what is given of a namespace ($1): description ($2), mode ($3), pause between questions ($4), fallback ($5), provider ($6), announcements ($7): see functions/change_namespace.sql.
select {schema}.change_namespace($1, $2, $3, $4, $5, $6, $7)
