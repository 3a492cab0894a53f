-- Applies one migration and records it in the same transaction, so that both happen or neither.

-- A client that is paused in the middle blocks others for no longer than this.
set local idle_in_transaction_session_timeout = '30s';
select exists (select from migrations where name = :'name') as done \gset
\if :done
\else
  -- Insert the record first: a concurrent attempt waits here, and fails once this one is committed.
  insert into migrations (name, term) values (:'name', :term);
  \i :file
  \echo applied :name in term :term
\endif
