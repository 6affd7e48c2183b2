BEGIN TRANSACTION;
CREATE TABLE about (
	"key" VARCHAR NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "about" VALUES('format','deixis-annotate');
INSERT INTO "about" VALUES('version','1');
CREATE TABLE barred (
	question INTEGER NOT NULL, 
	worker VARCHAR NOT NULL, 
	PRIMARY KEY (question, worker), 
	FOREIGN KEY(question) REFERENCES questions (number) ON DELETE CASCADE
);
INSERT INTO "barred" VALUES(7,'w85c4850a156a');
CREATE TABLE checks (
	number INTEGER NOT NULL, 
	worker VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	purpose VARCHAR NOT NULL, 
	known INTEGER, 
	event INTEGER, 
	"right" BOOLEAN, 
	PRIMARY KEY (number), 
	FOREIGN KEY(worker) REFERENCES workers (id), 
	UNIQUE (event)
);
INSERT INTO "checks" VALUES(1,'web4dae56147a','drawing','work',NULL,4,1);
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
	body JSON NOT NULL, 
	UNIQUE ("key"), 
	FOREIGN KEY(photo) REFERENCES photos (id), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
INSERT INTO "events" VALUES(1,'HZVxINdRMXuWU2Ct','dog0','wcf0acebfc427',1000.0,'judged','link',0.0,NULL,'{"task": "link", "subject": "0:0-5 1:0-7", "seconds": 0.0, "answer": "yes"}');
INSERT INTO "events" VALUES(2,'S5gyLNuPj7MkdzQ9','dog0','web4dae56147a',1000.0,'judged','verify',0.0,NULL,'{"task": "verify", "subject": "0:0-5 1:0-7", "seconds": 0.0, "answer": "yes"}');
INSERT INTO "events" VALUES(3,'KwRO6HWBaV4-fMCF','dog0','wcf0acebfc427',1000.0,'judged','requirement',0.0,NULL,'{"task": "requirement", "subject": "1:0-7", "seconds": 0.0, "answer": "box"}');
INSERT INTO "events" VALUES(4,'k4n2SA_2FA1Forug','dog0','web4dae56147a',1000.0,'judged','drawing',0.0,NULL,'{"task": "drawing", "subject": "1:0-7", "seconds": 0.0, "answer": "drawn", "box": [10.0, 10.0, 60.0, 50.0]}');
INSERT INTO "events" VALUES(5,'3MVhfZ0m1GJh7cvJ','dog0','wcf0acebfc427',1000.0,'judged','quality',0.0,NULL,'{"task": "quality", "subject": "1:0-7 ?b4", "seconds": 0.0, "answer": "good"}');
INSERT INTO "events" VALUES(6,'OE01QQ1aLaHMeFBL','dog0','w85c4850a156a',1000.0,'judged','coverage',0.0,NULL,'{"task": "coverage", "subject": "1:0-7 b4", "seconds": 0.0, "answer": "all"}');
CREATE TABLE known (
	number INTEGER NOT NULL, 
	photo VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	subject TEXT NOT NULL, 
	asked JSON NOT NULL, 
	answer VARCHAR NOT NULL, 
	boxes JSON NOT NULL, 
	reviewed BOOLEAN NOT NULL, 
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
INSERT INTO "leases" VALUES('HZVxINdRMXuWU2Ct','wcf0acebfc427',1,NULL,'work','link','dog0','0:0-5 1:0-7','{"task": "link", "photo": "dog0", "mentions": ["0:0-5", "1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('S5gyLNuPj7MkdzQ9','web4dae56147a',3,NULL,'work','verify','dog0','0:0-5 1:0-7','{"task": "verify", "photo": "dog0", "mentions": ["0:0-5", "1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('KwRO6HWBaV4-fMCF','wcf0acebfc427',4,NULL,'work','requirement','dog0','1:0-7','{"task": "requirement", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('k4n2SA_2FA1Forug','web4dae56147a',5,NULL,'work','drawing','dog0','1:0-7','{"task": "drawing", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('3MVhfZ0m1GJh7cvJ','wcf0acebfc427',6,NULL,'work','quality','dog0','1:0-7 ?b4','{"task": "quality", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [], "new_box": [10.0, 10.0, 60.0, 50.0]}',1600.0,'answered');
INSERT INTO "leases" VALUES('OE01QQ1aLaHMeFBL','w85c4850a156a',7,NULL,'work','coverage','dog0','1:0-7 b4','{"task": "coverage", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [[10.0, 10.0, 60.0, 50.0]], "new_box": null}',1600.0,'answered');
CREATE TABLE photos (
	id VARCHAR NOT NULL, 
	place INTEGER NOT NULL, 
	known BOOLEAN NOT NULL, 
	material JSON NOT NULL, 
	last_event INTEGER NOT NULL, 
	chains INTEGER NOT NULL, 
	waiting INTEGER NOT NULL, 
	finished BOOLEAN NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (place)
);
INSERT INTO "photos" VALUES('dog0',1,0,'{"photo": "dog0", "captions": ["A dog runs.", "The dog jumps."], "width": 100, "height": 80, "file": null, "sha256": null, "splits": [], "mentions": [["0:0-5", ["animals"]], ["1:0-7", ["animals"]]]}',6,1,0,0);
INSERT INTO "photos" VALUES('dog1',2,0,'{"photo": "dog1", "captions": ["A dog runs.", "The dog jumps."], "width": 100, "height": 80, "file": null, "sha256": null, "splits": [], "mentions": [["0:0-5", ["animals"]], ["1:0-7", ["animals"]]]}',0,1,0,0);
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
	seen BOOLEAN NOT NULL, 
	PRIMARY KEY (event), 
	FOREIGN KEY(event) REFERENCES events (number)
);
CREATE TABLE requeue (
	worker VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	photo VARCHAR NOT NULL, 
	PRIMARY KEY (worker, task, photo)
);
CREATE TABLE standings (
	worker VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	level VARCHAR NOT NULL, 
	"after" INTEGER NOT NULL, 
	PRIMARY KEY (worker, task), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
INSERT INTO "standings" VALUES('wcf0acebfc427','link','trusted',0);
INSERT INTO "standings" VALUES('wcf0acebfc427','verify','trusted',0);
INSERT INTO "standings" VALUES('wcf0acebfc427','requirement','trusted',0);
INSERT INTO "standings" VALUES('wcf0acebfc427','drawing','first items',0);
INSERT INTO "standings" VALUES('wcf0acebfc427','quality','trusted',0);
INSERT INTO "standings" VALUES('wcf0acebfc427','coverage','trusted',0);
INSERT INTO "standings" VALUES('web4dae56147a','link','trusted',0);
INSERT INTO "standings" VALUES('web4dae56147a','verify','trusted',0);
INSERT INTO "standings" VALUES('web4dae56147a','requirement','trusted',0);
INSERT INTO "standings" VALUES('web4dae56147a','drawing','first items',0);
INSERT INTO "standings" VALUES('web4dae56147a','quality','trusted',0);
INSERT INTO "standings" VALUES('web4dae56147a','coverage','trusted',0);
INSERT INTO "standings" VALUES('w85c4850a156a','link','trusted',0);
INSERT INTO "standings" VALUES('w85c4850a156a','verify','trusted',0);
INSERT INTO "standings" VALUES('w85c4850a156a','requirement','trusted',0);
INSERT INTO "standings" VALUES('w85c4850a156a','drawing','first items',0);
INSERT INTO "standings" VALUES('w85c4850a156a','quality','trusted',0);
INSERT INTO "standings" VALUES('w85c4850a156a','coverage','trusted',0);
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
	PRIMARY KEY (id), 
	UNIQUE (invitation)
);
INSERT INTO "workers" VALUES('wcf0acebfc427','Ann','c04833c469305a022a26413566384923cd57c7c52f78d52fa32c441da6492338',NULL,'worker',1000.0,NULL,1,0,0.0,0);
INSERT INTO "workers" VALUES('web4dae56147a','Bob','e7796617eeaac6a0576aad4d627287022ff10d4f2f5a86959ab01081fef2d69c',NULL,'worker',1000.0,NULL,1,0,0.0,0);
INSERT INTO "workers" VALUES('w85c4850a156a','Cy','7b7360355a6347f6209c33792c0997064d4f6e4fbd9b3fd6c478b7fe3f2b1c35',NULL,'worker',1000.0,NULL,1,0,0.0,0);
INSERT INTO "workers" VALUES('wffa8eecc16b4','Dee','fafa4e90b2cacc96fcea0b7cd88bc52268518e6a3dff2afddd7d6fbbbec61b5b',NULL,'worker',1000.0,NULL,1,0,0.0,0);
CREATE INDEX events_of_worker ON events (worker, task);
CREATE INDEX events_of_photo ON events (photo, number);
CREATE INDEX questions_in_order ON questions (place, number);
CREATE INDEX known_of_task ON known (task);
CREATE INDEX leases_of_worker ON leases (worker, state);
CREATE UNIQUE INDEX one_holder ON leases (question) WHERE state = 'open';
CREATE INDEX checks_of_worker ON checks (worker, task);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('questions',7);
INSERT INTO "sqlite_sequence" VALUES('events',6);
COMMIT;
