/* change_namespace */
-- Changes what is given of a namespace ($1): description ($2), mode ($3), pause between questions ($4), fallback ($5), provider ($6), announcements ($7); and tells everybody ($8: the channel).
-- No row: there is none.
with changed as (
    update {schema}.namespace n
    set description = coalesce($2, n.description), mode = coalesce($3::text::"char", n.mode), poll_ms = coalesce($4, n.poll_ms), fallback = coalesce($5, n.fallback),
        provider = coalesce($6::text::"char", n.provider), announces = coalesce($7, n.announces), version = n.version + 1
    where n.name = $1
    returning n.id
)
select c.id, {schema}.ring(array[$8], array['']) from changed c
