BEGIN TRANSACTION;
CREATE TABLE about (
	"key" VARCHAR NOT NULL, 
	value TEXT NOT NULL, row_crc INTEGER, 
	PRIMARY KEY ("key")
);
INSERT INTO "about" VALUES('format','deixis-annotate',2941634393);
INSERT INTO "about" VALUES('version','3',1724972190);
CREATE TABLE api_tokens (
	id VARCHAR NOT NULL, 
	hash VARCHAR NOT NULL, 
	worker VARCHAR NOT NULL, 
	name TEXT NOT NULL, 
	created_at FLOAT NOT NULL, 
	until FLOAT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (hash), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
CREATE TABLE assignments (
	id VARCHAR NOT NULL, 
	hit VARCHAR NOT NULL, 
	worker VARCHAR NOT NULL, 
	items INTEGER NOT NULL, 
	done INTEGER NOT NULL, 
	begun_at FLOAT NOT NULL, 
	submit_to TEXT NOT NULL, 
	state VARCHAR NOT NULL, row_crc INTEGER, 
	PRIMARY KEY (id), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
CREATE TABLE barred (
	question INTEGER NOT NULL, 
	worker VARCHAR NOT NULL, 
	PRIMARY KEY (question, worker), 
	FOREIGN KEY(question) REFERENCES questions (number) ON DELETE CASCADE
);
INSERT INTO "barred" VALUES(7,'wd16bfdce0ee1');
CREATE TABLE checks (
	number INTEGER NOT NULL, 
	worker VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	purpose VARCHAR NOT NULL, 
	known INTEGER, 
	event INTEGER, 
	"right" BOOLEAN, row_crc INTEGER, 
	PRIMARY KEY (number), 
	FOREIGN KEY(worker) REFERENCES workers (id), 
	UNIQUE (event)
);
INSERT INTO "checks" VALUES(1,'wf910b3e12085','drawing','work',NULL,4,1,4107704565);
CREATE TABLE events (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	"key" VARCHAR NOT NULL, 
	photo VARCHAR NOT NULL, 
	worker VARCHAR NOT NULL, 
	at FLOAT NOT NULL, 
	kind VARCHAR NOT NULL, 
	task VARCHAR, 
	seconds FLOAT NOT NULL, 
	known INTEGER, 
	body JSON NOT NULL, row_crc INTEGER, 
	UNIQUE ("key"), 
	FOREIGN KEY(photo) REFERENCES photos (id), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
INSERT INTO "events" VALUES(1,'ji3917ZYTIq_5ejk','dog0','w2e1f3049a01f',1000.0,'judged','link',0.0,NULL,'{"task": "link", "subject": "0:0-5 1:0-7", "seconds": 0.0, "answer": "yes"}',1053630826);
INSERT INTO "events" VALUES(2,'fyCBevN3soEDtf7f','dog0','wf910b3e12085',1000.0,'judged','verify',0.0,NULL,'{"task": "verify", "subject": "0:0-5 1:0-7", "seconds": 0.0, "answer": "yes"}',1983357590);
INSERT INTO "events" VALUES(3,'rDwUNZgN7JNBYbuv','dog0','w2e1f3049a01f',1000.0,'judged','requirement',0.0,NULL,'{"task": "requirement", "subject": "1:0-7", "seconds": 0.0, "answer": "box"}',550580246);
INSERT INTO "events" VALUES(4,'LldeP-fYEAA45id_','dog0','wf910b3e12085',1000.0,'judged','drawing',0.0,NULL,'{"task": "drawing", "subject": "1:0-7", "seconds": 0.0, "answer": "drawn", "box": [10.0, 10.0, 60.0, 50.0]}',1822054195);
INSERT INTO "events" VALUES(5,'KWw6QqdUl4MGZ4zS','dog0','w2e1f3049a01f',1000.0,'judged','quality',0.0,NULL,'{"task": "quality", "subject": "1:0-7 ?b4", "seconds": 0.0, "answer": "good"}',3327837579);
INSERT INTO "events" VALUES(6,'jcO_3-DoOo8erA82','dog0','wd16bfdce0ee1',1000.0,'judged','coverage',0.0,NULL,'{"task": "coverage", "subject": "1:0-7 b4", "seconds": 0.0, "answer": "all"}',2042891604);
CREATE TABLE known (
	number INTEGER NOT NULL, 
	photo VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	subject TEXT NOT NULL, 
	asked JSON NOT NULL, 
	answer VARCHAR NOT NULL, 
	boxes JSON NOT NULL, 
	reviewed BOOLEAN NOT NULL, 
	lesson JSON, row_crc INTEGER, 
	PRIMARY KEY (number), 
	UNIQUE (photo, task, subject), 
	FOREIGN KEY(photo) REFERENCES photos (id)
);
CREATE TABLE leases (
	token VARCHAR NOT NULL, 
	worker VARCHAR NOT NULL, 
	question INTEGER, 
	known INTEGER, 
	purpose VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	photo VARCHAR NOT NULL, 
	subject TEXT NOT NULL, 
	asked JSON NOT NULL, 
	until FLOAT NOT NULL, 
	state VARCHAR NOT NULL, 
	PRIMARY KEY (token), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
INSERT INTO "leases" VALUES('ji3917ZYTIq_5ejk','w2e1f3049a01f',1,NULL,'work','link','dog0','0:0-5 1:0-7','{"task": "link", "photo": "dog0", "mentions": ["0:0-5", "1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('fyCBevN3soEDtf7f','wf910b3e12085',3,NULL,'work','verify','dog0','0:0-5 1:0-7','{"task": "verify", "photo": "dog0", "mentions": ["0:0-5", "1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('rDwUNZgN7JNBYbuv','w2e1f3049a01f',4,NULL,'work','requirement','dog0','1:0-7','{"task": "requirement", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('LldeP-fYEAA45id_','wf910b3e12085',5,NULL,'work','drawing','dog0','1:0-7','{"task": "drawing", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('KWw6QqdUl4MGZ4zS','w2e1f3049a01f',6,NULL,'work','quality','dog0','1:0-7 ?b4','{"task": "quality", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [], "new_box": [10.0, 10.0, 60.0, 50.0]}',1600.0,'answered');
INSERT INTO "leases" VALUES('jcO_3-DoOo8erA82','wd16bfdce0ee1',7,NULL,'work','coverage','dog0','1:0-7 b4','{"task": "coverage", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [[10.0, 10.0, 60.0, 50.0]], "new_box": null}',1600.0,'answered');
CREATE TABLE messages (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	webhook VARCHAR NOT NULL, 
	body JSON NOT NULL, 
	attempts INTEGER NOT NULL, 
	due_at FLOAT NOT NULL, 
	error TEXT, 
	failed BOOLEAN NOT NULL, 
	FOREIGN KEY(webhook) REFERENCES webhooks (id) ON DELETE CASCADE
);
CREATE TABLE photos (
	id VARCHAR NOT NULL, 
	place INTEGER NOT NULL, 
	known BOOLEAN NOT NULL, 
	material JSON NOT NULL, 
	last_event INTEGER NOT NULL, 
	chains INTEGER NOT NULL, 
	waiting INTEGER NOT NULL, 
	finished BOOLEAN NOT NULL, row_crc INTEGER, 
	PRIMARY KEY (id), 
	UNIQUE (place)
);
INSERT INTO "photos" VALUES('dog0',1,0,'{"photo": "dog0", "captions": ["A dog runs.", "The dog jumps."], "width": 100, "height": 80, "file": null, "sha256": null, "splits": [], "mentions": [["0:0-5", ["animals"]], ["1:0-7", ["animals"]]]}',6,1,0,0,2672356087);
INSERT INTO "photos" VALUES('dog1',2,0,'{"photo": "dog1", "captions": ["A dog runs.", "The dog jumps."], "width": 100, "height": 80, "file": null, "sha256": null, "splits": [], "mentions": [["0:0-5", ["animals"]], ["1:0-7", ["animals"]]]}',0,1,0,0,3767277995);
CREATE TABLE questions (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	photo VARCHAR NOT NULL, 
	place INTEGER NOT NULL, 
	task VARCHAR NOT NULL, 
	subject TEXT NOT NULL, 
	asked JSON NOT NULL, 
	leased_until FLOAT NOT NULL, 
	UNIQUE (photo, task, subject), 
	FOREIGN KEY(photo) REFERENCES photos (id)
);
INSERT INTO "questions" VALUES(2,'dog1',2,'link','0:0-5 1:0-7','{"task": "link", "photo": "dog1", "mentions": ["0:0-5", "1:0-7"], "boxes": [], "new_box": null}',0.0);
INSERT INTO "questions" VALUES(7,'dog0',1,'coverage','1:0-7 b4','{"task": "coverage", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [[10.0, 10.0, 60.0, 50.0]], "new_box": null}',0.0);
CREATE TABLE remarks (
	event INTEGER NOT NULL, 
	worker VARCHAR NOT NULL, 
	text TEXT NOT NULL, 
	seen BOOLEAN NOT NULL, row_crc INTEGER, 
	PRIMARY KEY (event), 
	FOREIGN KEY(event) REFERENCES events (number)
);
CREATE TABLE requeue (
	worker VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	photo VARCHAR NOT NULL, 
	PRIMARY KEY (worker, task, photo)
);
CREATE TABLE sessions (
	hash VARCHAR NOT NULL, 
	worker VARCHAR NOT NULL, 
	until FLOAT NOT NULL, 
	assignment VARCHAR, 
	PRIMARY KEY (hash), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
CREATE TABLE standings (
	worker VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	level VARCHAR NOT NULL, 
	"after" INTEGER NOT NULL, row_crc INTEGER, 
	PRIMARY KEY (worker, task), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
INSERT INTO "standings" VALUES('w2e1f3049a01f','link','trusted',0,3784742866);
INSERT INTO "standings" VALUES('w2e1f3049a01f','verify','trusted',0,748920316);
INSERT INTO "standings" VALUES('w2e1f3049a01f','requirement','trusted',0,3125573634);
INSERT INTO "standings" VALUES('w2e1f3049a01f','drawing','first items',0,3669416539);
INSERT INTO "standings" VALUES('w2e1f3049a01f','quality','trusted',0,536788295);
INSERT INTO "standings" VALUES('w2e1f3049a01f','coverage','trusted',0,1103373233);
INSERT INTO "standings" VALUES('w2e1f3049a01f','group','trusted',0,3127754628);
INSERT INTO "standings" VALUES('w2e1f3049a01f','pair','trusted',0,1275988829);
INSERT INTO "standings" VALUES('wf910b3e12085','link','trusted',0,1018560405);
INSERT INTO "standings" VALUES('wf910b3e12085','verify','trusted',0,3505549431);
INSERT INTO "standings" VALUES('wf910b3e12085','requirement','trusted',0,2367195730);
INSERT INTO "standings" VALUES('wf910b3e12085','drawing','first items',0,3991021579);
INSERT INTO "standings" VALUES('wf910b3e12085','quality','trusted',0,1701361154);
INSERT INTO "standings" VALUES('wf910b3e12085','coverage','trusted',0,1191706789);
INSERT INTO "standings" VALUES('wf910b3e12085','group','trusted',0,1376274655);
INSERT INTO "standings" VALUES('wf910b3e12085','pair','trusted',0,2435670810);
INSERT INTO "standings" VALUES('wd16bfdce0ee1','link','trusted',0,4142213552);
INSERT INTO "standings" VALUES('wd16bfdce0ee1','verify','trusted',0,1471225121);
INSERT INTO "standings" VALUES('wd16bfdce0ee1','requirement','trusted',0,4112098034);
INSERT INTO "standings" VALUES('wd16bfdce0ee1','drawing','first items',0,2514682027);
INSERT INTO "standings" VALUES('wd16bfdce0ee1','quality','trusted',0,3890676142);
INSERT INTO "standings" VALUES('wd16bfdce0ee1','coverage','trusted',0,2565497041);
INSERT INTO "standings" VALUES('wd16bfdce0ee1','group','trusted',0,432458830);
INSERT INTO "standings" VALUES('wd16bfdce0ee1','pair','trusted',0,1534965055);
CREATE TABLE totals (name TEXT PRIMARY KEY, number INTEGER, crc INTEGER, columns TEXT);
INSERT INTO "totals" VALUES('about',2,4666606583,'"key", "value"');
INSERT INTO "totals" VALUES('photos',2,6439634082,'"id", "place", "known", "material", "last_event", "chains", "waiting", "finished"');
INSERT INTO "totals" VALUES('workers',4,10421562413,'"id", "name", "invitation", "password", "role", "invited_at", "joined_at", "vouched", "history_items", "history_accuracy", "forgotten", "suspended_at", "subject"');
INSERT INTO "totals" VALUES('events',6,10780352040,'"number", "key", "photo", "worker", "at", "kind", "task", "seconds", "known", "body"');
INSERT INTO "totals" VALUES('remarks',0,0,'"event", "worker", "text", "seen"');
INSERT INTO "totals" VALUES('known',0,0,'"number", "photo", "task", "subject", "asked", "answer", "boxes", "reviewed", "lesson"');
INSERT INTO "totals" VALUES('checks',1,4107704565,'"number", "worker", "task", "purpose", "known", "event", "right"');
INSERT INTO "totals" VALUES('standings',24,55623714695,'"worker", "task", "level", "after"');
INSERT INTO "totals" VALUES('assignments',0,0,'"id", "hit", "worker", "items", "done", "begun_at", "submit_to", "state"');
INSERT INTO "totals" VALUES('commits',17,3511083602,'');
CREATE TABLE webhooks (
	id VARCHAR NOT NULL, 
	url TEXT NOT NULL, 
	secret VARCHAR NOT NULL, 
	kinds JSON NOT NULL, 
	created_at FLOAT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE workers (
	id VARCHAR NOT NULL, 
	name TEXT, 
	invitation VARCHAR, 
	password TEXT, 
	role VARCHAR NOT NULL, 
	invited_at FLOAT NOT NULL, 
	joined_at FLOAT, 
	vouched BOOLEAN NOT NULL, 
	history_items INTEGER NOT NULL, 
	history_accuracy FLOAT NOT NULL, 
	forgotten BOOLEAN NOT NULL, 
	suspended_at FLOAT, 
	subject VARCHAR, row_crc INTEGER, 
	PRIMARY KEY (id), 
	UNIQUE (invitation)
);
INSERT INTO "workers" VALUES('w2e1f3049a01f','Ann','2b636e8f4e50ae81c18bc2e5667f216667384be4d2da3dad5663305fb38bbcee',NULL,'worker',1000.0,NULL,1,0,0.0,0,NULL,NULL,2105293792);
INSERT INTO "workers" VALUES('wf910b3e12085','Bob','38f6ec783e00ec2128e5a13baeb734949cc5e586b1ec232f64150938bbd0bde1',NULL,'worker',1000.0,NULL,1,0,0.0,0,NULL,NULL,2978693392);
INSERT INTO "workers" VALUES('wd16bfdce0ee1','Cy','faced0ce731c64fe76fe93293f7543551d9d3efab9d8bf23f16ea0ebf4dc40ec',NULL,'worker',1000.0,NULL,1,0,0.0,0,NULL,NULL,3966863444);
INSERT INTO "workers" VALUES('web0de1d9ce1e','Dee','69486d710481f0ccff461acb188e3fb2cb53c731f2248f6451021d045768f014',NULL,'worker',1000.0,NULL,1,0,0.0,0,NULL,NULL,1370711785);
CREATE INDEX events_of_worker ON events (worker, task);
CREATE INDEX events_of_photo ON events (photo, number);
CREATE INDEX questions_in_order ON questions (place, number);
CREATE INDEX known_of_task ON known (task);
CREATE INDEX leases_by_time ON leases (worker, until);
CREATE INDEX leases_of_worker ON leases (worker, state);
CREATE UNIQUE INDEX one_holder ON leases (question) WHERE state = 'open';
CREATE INDEX checks_of_worker ON checks (worker, task);
CREATE INDEX sessions_of_worker ON sessions (worker);
CREATE INDEX tokens_of_worker ON api_tokens (worker);
CREATE INDEX messages_due ON messages (webhook, failed, due_at);
CREATE TRIGGER about_insert_checksum AFTER INSERT ON about BEGIN UPDATE about SET row_crc = deixis_crc("key", "value") WHERE rowid = NEW.rowid;UPDATE totals SET number = number + 1, crc = crc + (SELECT row_crc FROM about WHERE rowid = NEW.rowid) WHERE name = 'about'; END;
CREATE TRIGGER about_update_checksum AFTER UPDATE OF "key", "value" ON about BEGIN UPDATE about SET row_crc = deixis_crc("key", "value") WHERE rowid = NEW.rowid;UPDATE totals SET number = number , crc = crc - OLD.row_crc + (SELECT row_crc FROM about WHERE rowid = NEW.rowid) WHERE name = 'about'; END;
CREATE TRIGGER about_delete_checksum AFTER DELETE ON about BEGIN UPDATE totals SET number = number - 1, crc = crc - OLD.row_crc WHERE name = 'about'; END;
CREATE TRIGGER photos_insert_checksum AFTER INSERT ON photos BEGIN UPDATE photos SET row_crc = deixis_crc("id", "place", "known", "material", "last_event", "chains", "waiting", "finished") WHERE rowid = NEW.rowid;UPDATE totals SET number = number + 1, crc = crc + (SELECT row_crc FROM photos WHERE rowid = NEW.rowid) WHERE name = 'photos'; END;
CREATE TRIGGER photos_update_checksum AFTER UPDATE OF "id", "place", "known", "material", "last_event", "chains", "waiting", "finished" ON photos BEGIN UPDATE photos SET row_crc = deixis_crc("id", "place", "known", "material", "last_event", "chains", "waiting", "finished") WHERE rowid = NEW.rowid;UPDATE totals SET number = number , crc = crc - OLD.row_crc + (SELECT row_crc FROM photos WHERE rowid = NEW.rowid) WHERE name = 'photos'; END;
CREATE TRIGGER photos_delete_checksum AFTER DELETE ON photos BEGIN UPDATE totals SET number = number - 1, crc = crc - OLD.row_crc WHERE name = 'photos'; END;
CREATE TRIGGER workers_insert_checksum AFTER INSERT ON workers BEGIN UPDATE workers SET row_crc = deixis_crc("id", "name", "invitation", "password", "role", "invited_at", "joined_at", "vouched", "history_items", "history_accuracy", "forgotten", "suspended_at", "subject") WHERE rowid = NEW.rowid;UPDATE totals SET number = number + 1, crc = crc + (SELECT row_crc FROM workers WHERE rowid = NEW.rowid) WHERE name = 'workers'; END;
CREATE TRIGGER workers_update_checksum AFTER UPDATE OF "id", "name", "invitation", "password", "role", "invited_at", "joined_at", "vouched", "history_items", "history_accuracy", "forgotten", "suspended_at", "subject" ON workers BEGIN UPDATE workers SET row_crc = deixis_crc("id", "name", "invitation", "password", "role", "invited_at", "joined_at", "vouched", "history_items", "history_accuracy", "forgotten", "suspended_at", "subject") WHERE rowid = NEW.rowid;UPDATE totals SET number = number , crc = crc - OLD.row_crc + (SELECT row_crc FROM workers WHERE rowid = NEW.rowid) WHERE name = 'workers'; END;
CREATE TRIGGER workers_delete_checksum AFTER DELETE ON workers BEGIN UPDATE totals SET number = number - 1, crc = crc - OLD.row_crc WHERE name = 'workers'; END;
CREATE TRIGGER events_insert_checksum AFTER INSERT ON events BEGIN UPDATE events SET row_crc = deixis_crc("number", "key", "photo", "worker", "at", "kind", "task", "seconds", "known", "body") WHERE rowid = NEW.rowid;UPDATE totals SET number = number + 1, crc = crc + (SELECT row_crc FROM events WHERE rowid = NEW.rowid) WHERE name = 'events'; END;
CREATE TRIGGER events_update_checksum AFTER UPDATE OF "number", "key", "photo", "worker", "at", "kind", "task", "seconds", "known", "body" ON events BEGIN UPDATE events SET row_crc = deixis_crc("number", "key", "photo", "worker", "at", "kind", "task", "seconds", "known", "body") WHERE rowid = NEW.rowid;UPDATE totals SET number = number , crc = crc - OLD.row_crc + (SELECT row_crc FROM events WHERE rowid = NEW.rowid) WHERE name = 'events'; END;
CREATE TRIGGER events_delete_checksum AFTER DELETE ON events BEGIN UPDATE totals SET number = number - 1, crc = crc - OLD.row_crc WHERE name = 'events'; END;
CREATE TRIGGER remarks_insert_checksum AFTER INSERT ON remarks BEGIN UPDATE remarks SET row_crc = deixis_crc("event", "worker", "text", "seen") WHERE rowid = NEW.rowid;UPDATE totals SET number = number + 1, crc = crc + (SELECT row_crc FROM remarks WHERE rowid = NEW.rowid) WHERE name = 'remarks'; END;
CREATE TRIGGER remarks_update_checksum AFTER UPDATE OF "event", "worker", "text", "seen" ON remarks BEGIN UPDATE remarks SET row_crc = deixis_crc("event", "worker", "text", "seen") WHERE rowid = NEW.rowid;UPDATE totals SET number = number , crc = crc - OLD.row_crc + (SELECT row_crc FROM remarks WHERE rowid = NEW.rowid) WHERE name = 'remarks'; END;
CREATE TRIGGER remarks_delete_checksum AFTER DELETE ON remarks BEGIN UPDATE totals SET number = number - 1, crc = crc - OLD.row_crc WHERE name = 'remarks'; END;
CREATE TRIGGER known_insert_checksum AFTER INSERT ON known BEGIN UPDATE known SET row_crc = deixis_crc("number", "photo", "task", "subject", "asked", "answer", "boxes", "reviewed", "lesson") WHERE rowid = NEW.rowid;UPDATE totals SET number = number + 1, crc = crc + (SELECT row_crc FROM known WHERE rowid = NEW.rowid) WHERE name = 'known'; END;
CREATE TRIGGER known_update_checksum AFTER UPDATE OF "number", "photo", "task", "subject", "asked", "answer", "boxes", "reviewed", "lesson" ON known BEGIN UPDATE known SET row_crc = deixis_crc("number", "photo", "task", "subject", "asked", "answer", "boxes", "reviewed", "lesson") WHERE rowid = NEW.rowid;UPDATE totals SET number = number , crc = crc - OLD.row_crc + (SELECT row_crc FROM known WHERE rowid = NEW.rowid) WHERE name = 'known'; END;
CREATE TRIGGER known_delete_checksum AFTER DELETE ON known BEGIN UPDATE totals SET number = number - 1, crc = crc - OLD.row_crc WHERE name = 'known'; END;
CREATE TRIGGER checks_insert_checksum AFTER INSERT ON checks BEGIN UPDATE checks SET row_crc = deixis_crc("number", "worker", "task", "purpose", "known", "event", "right") WHERE rowid = NEW.rowid;UPDATE totals SET number = number + 1, crc = crc + (SELECT row_crc FROM checks WHERE rowid = NEW.rowid) WHERE name = 'checks'; END;
CREATE TRIGGER checks_update_checksum AFTER UPDATE OF "number", "worker", "task", "purpose", "known", "event", "right" ON checks BEGIN UPDATE checks SET row_crc = deixis_crc("number", "worker", "task", "purpose", "known", "event", "right") WHERE rowid = NEW.rowid;UPDATE totals SET number = number , crc = crc - OLD.row_crc + (SELECT row_crc FROM checks WHERE rowid = NEW.rowid) WHERE name = 'checks'; END;
CREATE TRIGGER checks_delete_checksum AFTER DELETE ON checks BEGIN UPDATE totals SET number = number - 1, crc = crc - OLD.row_crc WHERE name = 'checks'; END;
CREATE TRIGGER standings_insert_checksum AFTER INSERT ON standings BEGIN UPDATE standings SET row_crc = deixis_crc("worker", "task", "level", "after") WHERE rowid = NEW.rowid;UPDATE totals SET number = number + 1, crc = crc + (SELECT row_crc FROM standings WHERE rowid = NEW.rowid) WHERE name = 'standings'; END;
CREATE TRIGGER standings_update_checksum AFTER UPDATE OF "worker", "task", "level", "after" ON standings BEGIN UPDATE standings SET row_crc = deixis_crc("worker", "task", "level", "after") WHERE rowid = NEW.rowid;UPDATE totals SET number = number , crc = crc - OLD.row_crc + (SELECT row_crc FROM standings WHERE rowid = NEW.rowid) WHERE name = 'standings'; END;
CREATE TRIGGER standings_delete_checksum AFTER DELETE ON standings BEGIN UPDATE totals SET number = number - 1, crc = crc - OLD.row_crc WHERE name = 'standings'; END;
CREATE TRIGGER assignments_insert_checksum AFTER INSERT ON assignments BEGIN UPDATE assignments SET row_crc = deixis_crc("id", "hit", "worker", "items", "done", "begun_at", "submit_to", "state") WHERE rowid = NEW.rowid;UPDATE totals SET number = number + 1, crc = crc + (SELECT row_crc FROM assignments WHERE rowid = NEW.rowid) WHERE name = 'assignments'; END;
CREATE TRIGGER assignments_update_checksum AFTER UPDATE OF "id", "hit", "worker", "items", "done", "begun_at", "submit_to", "state" ON assignments BEGIN UPDATE assignments SET row_crc = deixis_crc("id", "hit", "worker", "items", "done", "begun_at", "submit_to", "state") WHERE rowid = NEW.rowid;UPDATE totals SET number = number , crc = crc - OLD.row_crc + (SELECT row_crc FROM assignments WHERE rowid = NEW.rowid) WHERE name = 'assignments'; END;
CREATE TRIGGER assignments_delete_checksum AFTER DELETE ON assignments BEGIN UPDATE totals SET number = number - 1, crc = crc - OLD.row_crc WHERE name = 'assignments'; END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('questions',7);
INSERT INTO "sqlite_sequence" VALUES('events',6);
COMMIT;
