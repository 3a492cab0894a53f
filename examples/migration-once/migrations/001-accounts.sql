create table accounts (id text primary key, balance bigint not null default 0);
