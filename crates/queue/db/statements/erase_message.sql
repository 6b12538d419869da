/* erase_message */
-- Deletes a message; its element of the arrays stays, empty.
-- $1 partition_id bigint  $2 segment bigint: its first offset  $3 element integer  $4 id uuid
-- Rows:  one, if the message exists.
update {schema}.segment s set ids[$3::integer] = null, payloads[$3::integer] = ''
where s.partition_id = $1::bigint and s.first_offset = $2::bigint and s.ids[$3::integer] = $4::uuid
returning s.first_offset
